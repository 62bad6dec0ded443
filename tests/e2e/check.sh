#!/bin/bash
# berth check: what it finds in a share's file, what it says of it, and what it repairs.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
export BERTH_SIM_GPUS=2x8G BERTH_SIM_CONTEXT_BYTES=0
M=$((1024 * 1024))

region() { echo "$BERTH_STATE_DIR/shares/$1/region.cache"; }
# Offsets of src/region/layout.h, written down once more.
seat_at() { echo $((1856 + $1 * 1960)); }
ledger_at() { echo $((2031616 + 76032 + ($1 * 1024 + $2) * 32)); } # GPU SEAT
poke() { # FILE OFFSET FIGURE: 8 bytes, little-endian
	printf '%b' "$(printf '%016x' "$3" | sed 's/\(..\)\(..\)\(..\)\(..\)\(..\)\(..\)\(..\)\(..\)/\\x\8\\x\7\\x\6\\x\5\\x\4\\x\3\\x\2\\x\1/')" |
		dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
peek() { od -An -v -t u8 -j "$2" -N 8 "$1" | tr -d ' '; }
kind() { "$berth" check "$1" --json | jq -r "[.[0].findings[] | .kind + (if .seat == null then \"\" else \":\" + (.seat | tostring) end)] | join(\" \")"; }
damage() { # NAME OFFSET FIGURE WORDS: in a copy of the share "model"
	mkdir -p "$BERTH_STATE_DIR/shares/$1"
	cp "$(region model)" "$(region "$1")"
	poke "$(region "$1")" "$2" "$3"
	run "$berth" check "$1"
	check "$1: status 1" is "$status" 1
	check "$1: told" has "$out" "$4"
	check "$1: and what to do" has "$out" "end the share's programs, then remove its file"
	check "$1: and counted" has "$out" "$1: broken in 1 place"
}

run "$berth" check
check "no shares: nothing to say" is "$status$out$err" 0
run "$berth" check --json
check "no shares: an empty list" is "$(printf '%s' "$out" | jq -c .)" "[]"
run "$berth" check nobody
check "no such share: a failure" is "$status" 1
check "which is told" has "$err" "there is no share 'nobody'; there are none"
run "$berth" check --lots
check "an unknown option" is "$status" 2
run "$berth" check 'a b'
check "not a name" is "$status" 1

actor a --name team -m 1G
actor b --name team -m 1G
tell a alloc x 300M
tell b alloc y 200M
run "$berth" check
check "a share at work is whole" is "$status$out" "0team: whole"
run "$berth" check team --json
check "in JSON" is "$(printf '%s' "$out" | jq -c '.[0] | [.name, .whole, .findings]')" '["team",true,[]]'

# The dead: a note, and what it means.
kill -9 "${actor_pid[a]}"
wait "${actor_pid[a]}" 2>/dev/null
run "$berth" check team
check "a dead process's seat is a note, not a fault" is "$status" 0
check "its pid is told" has "$out" "team: seat 0: its process (pid ${actor_pid[a]} where it ran) is dead"
check "what it left" has "$out" "it left 300 MiB"
check "that it counts nowhere" has "$out" "its bytes count nowhere"
check "and who repairs it" has "$out" "--repair does it now"
check "the share is whole" has "$out" "team: whole, 1 note"
check "looking repairs nothing" is "$(kind team)" "dead:0"
run "$berth" check --repair team
check "--repair empties it" has "$out" "is dead; it left 300 MiB; emptied"
check "and all is well" is "$status$(printf '%s\n' "$out" | tail -n 1)" "0team: whole"
check "also afterwards" is "$(kind team)" ""
check "the living keep what they have" is "$("$berth" ps --json | jq -r '.[].gpus[0].charged_bytes')" $((200 * M))
tell b alloc more 824M
check "and may have the rest" is "$answer" "more ok"

# More than the limit.
"$berth" limit team -q -m 100M
run "$berth" check team
check "over the limit is a note" is "$status" 0
check "with both figures" has "$out" "team: GPU 0: 1 GiB are charged, the limit is 100 MiB"
check "and what to do" has "$out" "raise the limit"
leave b

# Left-over files of births.
dead=$BERTH_STATE_DIR/shares/team/.region.cache.1-abc.birth
: >"$dead"
: >"$BERTH_STATE_DIR/shares/team/.region.cache.birth.kept"
printf 'x' >"$BERTH_STATE_DIR/shares/team/$(printf '.region.cache.2-\033[31m.birth')"
run "$berth" check team
check "left-over files are notes" is "$status" 0
check "named" has "$out" "team: left-over file .region.cache.1-abc.birth; its maker died"
check "escaped" has "$out" '.region.cache.2-\x1b[31m.birth'
check "and left" test -e "$dead"
run "$berth" check team --repair
check "until --repair" has "$out" ".region.cache.1-abc.birth; removed"
check "removes them" test ! -e "$dead"
check "and no others" is "$(find "$BERTH_STATE_DIR/shares/team" -type f | wc -l)" 2
mkdir "$BERTH_STATE_DIR/shares/unborn"
: >"$BERTH_STATE_DIR/shares/unborn/.region.cache.1-abc.birth"
run "$berth" check --repair
check "also where no share came of it" has "$out" "unborn: left-over file .region.cache.1-abc.birth; removed"
run "$berth" check
check "then there is nothing of it" is "$out" "team: whole"

# Damage. The places that are free and the one that is taken.
actor m --name model -m 1G
tell m alloc x 100M
entry=$(ledger_at 0 0)
check "the ledger is where the layout says" has "$(peek "$(region model)" $((entry + 8))) $(peek "$(region model)" $((entry + 16)))" $((100 * M))
seat=$(seat_at 0)
leave m
check "who has gone in peace leaves a seat too, if not a word" is "$(kind model)" "dead:0"
run "$berth" check --repair model
check "the model is whole" is "$(kind model)" ""
free=$(seat_at 7)
damage pid "$free" 4242 "seat 7: empty, but it names a process"
damage odd $((free + 1936)) 5 "seat 7: empty, but its sequence number is odd"
damage mirrored $((free + 8 + 32)) 4096 "seat 7: GPU 0: empty, but the mirror shows bytes"
damage mirrored1 $((free + 8 + 64 + 16)) 4096 "seat 7: GPU 1: empty, but the mirror shows bytes"
damage charged $(($(ledger_at 1 7) + 8)) $((5 * M)) "seat 7: GPU 1: empty, but bytes are charged"
damage asking "$(ledger_at 0 7)" 1 "seat 7: GPU 0: empty, but it asks"
damage high 2008896 99999 "more seats than there are"
run "$berth" check --json charged
check "in JSON" is "$(printf '%s' "$out" | jq -c '.[0] | [.whole, .findings[0].kind, .findings[0].seat, .findings[0].gpu, .findings[0].repaired]')" \
	'[false,"broken",7,1,false]'
run "$berth" check --repair charged
check "--repair says so where it can't" is "$status" 1
check "and leaves it alone" is "$(peek "$(region charged)" $(($(ledger_at 1 7) + 8)))" $((5 * M))

# In a seat that is taken: the mirror against the ledger.
actor n --name model -m 1G
tell n alloc x 100M
poke "$(region model)" $((seat + 8 + 16)) 77
run "$berth" check model
check "kinds that don't add up" has "$out" "model: seat 0: GPU 0: the mirror's kinds don't add up to its total"
check "are a fault" is "$status" 1
poke "$(region model)" $((seat + 8 + 16)) $((50 * M))
poke "$(region model)" $((seat + 8 + 32)) $((50 * M))
run "$berth" check model
check "a mirror that isn't the ledger's" has "$out" "seat 0: GPU 0: the mirror and the ledger differ"
# The fault goes with the seat of its dead process.
kill -9 "${actor_pid[n]}"
wait "${actor_pid[n]}" 2>/dev/null
run "$berth" check model --repair
check "what was wrong in a dead seat is gone with it" is "$status$(printf '%s\n' "$out" | tail -n 1)" "0model: whole"

# Another implementation's seat: a status of 1 in a place that none of ours took.
poke "$(region model)" $((free + 1928)) 1
poke "$(region model)" "$free" 4242
run "$berth" check model
check "a foreign seat is told" has "$out" "model: seat 7: taken by another implementation"
check "as a note" is "$status" 0

# Files that are no shares of ours: told as joining tells it, and the others are looked at all the same.
broken() { # NAME WORDS
	run "$berth" check "$1" team
	check "$1: status 1" is "$status" 1
	check "$1: the reason" has "$err" "$2"
	check "$1: the others are looked at" is "$out" "team: whole"
	check "$1: in JSON" has "$("$berth" check "$1" --json | jq -r '.[0].error')" "$2"
}
for name in short zeros version tail; do
	mkdir "$BERTH_STATE_DIR/shares/$name"
	cp "$(region team)" "$(region "$name")"
done
truncate -s 100 "$(region short)"
broken short "is not a region: 100 bytes where"
dd if=/dev/zero of="$(region zeros)" bs=64K count=1 conv=notrunc status=none
broken zeros "is not a region, or was never completed"
printf '\002' | dd of="$(region version)" bs=1 seek=4 conv=notrunc status=none
broken version "is a region of format 2.2"
poke "$(region tail)" 2031616 7
broken tail "is a region of another implementation"
run "$berth" check "$(region short)"
check "a path leads there too" is "$status" 1
run "$berth" check "$(region team)"
check "and to whole ones" is "$status$out" "0$(realpath "$(region team)"): whole"
run "$berth" check
check "all shares: one that can't be read is a failure" is "$status" 1
check "all shares: all are named" is "$(printf '%s\n%s\n' "$out" "$err" | grep -oE '(short|zeros|version|tail|team|charged): ' | sort -u | wc -l)" 6
run "$berth" check team nobody
check "one that isn't there is a failure" is "$status" 1
check "beside others" has "$out" "team: whole"
end
