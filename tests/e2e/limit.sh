#!/bin/bash
# berth limit: limits change while the programs run, up and down, and every change leaves its line.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
export BERTH_SIM_GPUS=2x8G BERTH_SIM_CONTEXT_BYTES=0
unset SUDO_UID
M=$((1024 * 1024))
log=$BERTH_STATE_DIR/audit.log

limits() { "$berth" limit "$1" --json | jq -r '[.gpus[].memory_limit_bytes] | map(. / 1048576) | join(" ")'; }
percents() { "$berth" limit "$1" --json | jq -r '[.gpus[].compute_limit_percent] | join(" ")'; }
lines() { if [ -e "$log" ]; then wc -l <"$log"; else echo 0; fi; }
row() { printf '%s\n' "$out" | tr -s ' ' | grep " $1:"; } # GPU: its row of the table
field() { sed -n "s/.* $1=\([^ ]*\).*/\1/p"; }
refuses() { # TEXT STATUS WORDS COMMAND...: nothing is changed, and no line is left
	local text=$1 want=$2 words=$3 count
	shift 3
	count=$(lines)
	run "$@"
	check "$text: status $want" is "$status" "$want"
	check "$text: is told" has "$err" "$words"
	check "$text: leaves no line" is "$(lines)" "$count"
}

# Command lines that are wrong.
refuses "no share" 2 "which share?" "$berth" limit
refuses "two shares" 2 "one share at a time" "$berth" limit a b
refuses "zero memory" 2 "say --unlimited" "$berth" limit a -m 0
refuses "no size" 2 "not a size" "$berth" limit a -m lots
refuses "zero compute" 2 "--unlimited lifts" "$berth" limit a -c 0
refuses "more than all" 2 "not a percentage" "$berth" limit a -c 101
refuses "both at once" 2 "exclude each other" "$berth" limit a -m 1G --unlimited
refuses "a change and the log" 2 "--log prints" "$berth" limit a --log -m 1G
refuses "an unknown option" 2 "unknown option" "$berth" limit a --lots
refuses "not a name" 1 "can't name a share" "$berth" limit 'a b' -m 1G
refuses "no share of that name" 1 "there is no share 'a'; there are none" "$berth" limit a -m 1G
refuses "no file of that path" 1 "there is no share '$work/x.cache'" "$berth" limit "$work/x.cache" -m 1G
refuses "no directory of that path" 1 "there is no share '$work/none/x.cache'" "$berth" limit "$work/none/x.cache" -m 1G

actor a --name team -m 1G -c 30
actor other --name other -m 1G
refuses "the shares that are there are named" 1 "there are (berth ps --all): other, team" "$berth" limit taem -m 1G
refuses "a GPU that isn't there" 1 "the share has no such GPU; the share has 0:" "$berth" limit team -g 7 -m 1G
refuses "a UUID that isn't there" 1 "no such GPU" "$berth" limit team -g GPU-ffff -m 1G
cp "$BERTH_STATE_DIR/shares/team/region.cache" "$work/twins.cache"
dd if="$work/twins.cache" of="$work/twins.cache" bs=1 skip=64 seek=160 count=12 conv=notrunc status=none
uuid=$("$berth" limit "$work/twins.cache" --json | jq -r '.gpus[1].uuid')
refuses "an ambiguous UUID" 1 "more than one GPU begins so" "$berth" limit "$work/twins.cache" -g "${uuid:0:10}" -m 1G
mkdir "$work/foreign"
head -c 3000000 /dev/zero >"$work/foreign/x.cache"
refuses "a file that is no region" 1 "is not a region" "$berth" limit "$work/foreign/x.cache" -m 1G

# Looking changes nothing.
run "$berth" limit team
check "the limits in force are shown" is "$(row 0 | cut -d ' ' -f 1,3-)" "team 0 B 1 GiB 0 % 30 %"
check "of all its GPUs" has "$(row 1)" "1 GiB"
check "and nothing is said" is "$err" ""
run "$berth" limit -g 1 team
check "of one GPU only" is "$(row 0)" ""
check "namely this" has "$(row 1)" "1 GiB"
uuid=$("$berth" limit team --json | jq -r '.gpus[1].uuid')
run "$berth" limit team -g "$uuid"
check "also by its UUID" is "$(row 0)$(row 1 | cut -d ' ' -f 1)" team
check "JSON names the share" is "$("$berth" limit team --json | jq -r '.name, (.gpus | length)' | xargs)" "team 2"
check "and each GPU with its figures" is "$("$berth" limit team --json | jq -c '.gpus[0] | keys')" \
	'["charged_bytes","compute_limit_percent","index","memory_limit_bytes","over_bytes","uuid"]'
check "looking leaves no line" is "$(lines)" 0
run "$berth" limit team --log
check "nor is there any to print" is "$status$out$err" 0

# Up: asks that were refused are granted now, in the program that runs.
tell a alloc x 800M
tell a alloc y 800M
check "before: the limit refuses" is "$answer" "y error 2 CUDA_ERROR_OUT_OF_MEMORY"
run "$berth" limit team -m 3G
check "the limit is raised" is "$status" 0
check "the table shows it" has "$(row 0)" "3 GiB"
tell a alloc y 800M
check "after: the same ask is granted" is "$answer" "y ok"
tell a info
check "and the program sees the new size" is "$answer" "info $((1472 * M)) $((3072 * M))"
check "another share is not touched" is "$(limits other)" "1024 1024"

# Down: below what is charged, which is told; then it fits again.
run "$berth" limit team --memory 1000M --gpu 0
check "lowering below what is charged is allowed" is "$status" 0
check "and told: by how much" has "$err" "600 MiB more are charged than the limit allows"
check "and what it means" has "$err" "asks are refused until it fits"
check "the table marks it" has "$(row 0)" "160 % over"
check "the other GPU stays as it was" is "$(limits team)" "1000 3072"
run "$berth" ps
check "berth ps marks it" has "$(row 0 | grep team)" "160 % over"
check "and tells how much in JSON" is "$("$berth" ps --json | jq -r '.[] | select(.name == "team") | [.gpus[].over_bytes] | join(" ")')" \
	"$((600 * M)) 0"
tell a alloc z 1
check "asks are refused" is "$answer" "z error 2 CUDA_ERROR_OUT_OF_MEMORY"
tell a free x
tell a alloc z 100M
check "until it fits" is "$answer" "z ok"
tell a alloc w 101M
check "to the byte" is "$answer" "w error 2 CUDA_ERROR_OUT_OF_MEMORY"

# Compute.
run "$berth" limit team -c 40
check "the compute limit alone" is "$(percents team)" "40 40"
check "says what it means" has "$err" "the compute limit of 40 % is recorded"
check "and leaves the memory limit" is "$(limits team)" "1000 3072"
run "$berth" limit team -c 100
check "100 is none" is "$(percents team)" "0 0"
check "with nothing to say" is "$err" ""

# Without a limit.
run "$berth" limit team --unlimited -c 50 -g 1
check "--unlimited lifts the memory limit" is "$(limits team)" "1000 0"
check "and says what that means" has "$err" "may fill the whole GPU"
check "the compute limit given with it holds" is "$(percents team)" "0 50"
run "$berth" limit team --unlimited
check "on all GPUs" is "$(limits team)" "0 0"
check "--unlimited leaves the compute limit" is "$(percents team)" "0 50"
tell a alloc big 4G
check "the program may have more now" is "$answer" "big ok"

# Quiet, and JSON.
run "$berth" limit team -q -m 1G
check "-q: done without a word" is "$status$out$err" 0
check "but done" is "$(limits team)" "1024 1024"
run "$berth" limit team -q -m 2G --json
check "-q --json: JSON and not a word" is "$(printf '%s' "$out" | jq -r '.gpus[0].memory_limit_bytes')$err" $((2048 * M))
run "$berth" limit team -q
check "-q without a change shows the limits" has "$(row 0)" "2 GiB"

# By its path, as for a container's share.
region=$BERTH_STATE_DIR/shares/team/region.cache
run "$berth" limit "$region" -m 5G
check "a path leads there too" is "$status$(limits team)" "05120 5120"
(cd "$BERTH_STATE_DIR/shares" && "$berth" limit ./team/region.cache -q -m 6G)
check "a relative one as well" is "$(limits team)" "6144 6144"

# The audit log.
check "the log is its user's only" is "$(stat -c %a "$log")" 600
check "a line a GPU and change, no others" is "$(lines)" 18
last=$(tail -n 1 "$log")
check "who" is "$(printf '%s' "$last" | field uid) $(printf '%s' "$last" | field user)" "$(id -u) $(id -un)"
check "by which command" is "$(printf '%s' "$last" | field by)" limit
check "which share" is "$(printf '%s' "$last" | field share)" team
check "its region, whatever the way to it" is "$(field region <"$log" | sort -u)" "$(realpath "$region")"
check "which GPU" is "$(printf '%s' "$last" | field gpu)" "$uuid"
check "from and to" is "$(printf '%s' "$last" | field memory_bytes)" "$((5120 * M))->$((6144 * M))"
check "compute, too" is "$(printf '%s ' "$last" | field compute)" "50->50"
when=$(printf '%s' "$last" | sed -n 's/^time=\([^ ]*Z\) .*/\1/p')
check "when, in UTC" test "$(($(date +%s) - $(date -d "$when" +%s)))" -ge 0 -a "$(($(date +%s) - $(date -d "$when" +%s)))" -lt 600
run env SUDO_UID=4711 "$berth" limit other -q -m 1G
check "who stands behind sudo" is "$(tail -n 1 "$log" | field sudo_uid)" 4711
run env SUDO_UID='1 share=x' "$berth" limit other -q -m 1G
check "nothing else is taken from there" is "$(tail -n 1 "$log" | field sudo_uid)$(tail -n 1 "$log" | field share)" other
run "$berth" limit team --log
check "--log prints the share's lines" is "$out" "$(grep ' share=team ' "$log")"
run "$berth" limit "$region" --log
check "also by its path" is "$out" "$(grep ' share=team ' "$log")"
ln -s "$BERTH_STATE_DIR" "$work/way"
run "$berth" limit "$work/way/shares/team/region.cache" --log
check "also by a link on the way" is "$out" "$(grep ' share=team ' "$log")"
run "$berth" run --sim --name team -m 512M -- /bin/true
check "berth run leaves one when it lowers" is "$(tail -n 1 "$log" | field by) $(tail -n 1 "$log" | field memory_bytes)" \
	"run $((6144 * M))->$((512 * M))"
count=$(lines)
run "$berth" run -q --sim --name team -m 1G -- /bin/true
check "and none when nothing changes" is "$(lines)" "$count"

# A share of somebody who chose its name for the log's sake.
tail=$(($(grep -abo team "$region" | tail -n 1 | cut -d : -f 1)))
mkdir "$work/evil dir"
cp "$region" "$work/evil dir/r.cache"
printf 'a\n\033[31m gpu=x' | dd of="$work/evil dir/r.cache" bs=1 seek="$tail" conv=notrunc status=none
run "$berth" limit "$work/evil dir/r.cache" -q -m 1G
check "a damaged name is no obstacle" is "$status" 0
# shellcheck disable=SC1003
check "foreign bytes are escaped" is "$(tail -n 1 "$log" | field share)" 'a\x0a\x1b[31m\x20gpu=x'
check "blanks of paths too" is "$(tail -n 1 "$log" | field region)" "$(realpath "$work")/evil\\x20dir/r.cache"
run "$berth" limit "$work/evil dir/r.cache" --log
check "and found again" is "$(printf '%s\n' "$out" | wc -l)" 2

# Without a line nothing is changed.
nolog() { # TEXT WORDS: now the log can't be written
	run "$berth" limit team -m 7G
	check "$1: the change fails" is "$status" 1
	check "$1: and says so" has "$err" "nothing was changed"
	check "$1: and why" has "$err" "$2"
	check "$1: nothing was changed" is "$(limits team)" "512 512"
}
mv "$log" "$work/log.kept"
mkdir "$log"
nolog "a directory in its place" "audit.log"
rmdir "$log"
ln -s "$work/log.kept" "$log"
nolog "a symbolic link" "symbolic link"
rm "$log"
ln "$work/log.kept" "$log"
nolog "a second name" "second name"
rm "$log"
mkfifo "$log"
nolog "a pipe" "not a regular file"
rm "$log"
cp "$work/log.kept" "$log"
chmod 666 "$log"
nolog "one that others may write" "written by other users"
if [ "$(id -u)" = 0 ]; then
	chmod 600 "$log"
	chown 65534 "$log"
	nolog "another user's" "another user"
fi
rm "$log"
(umask 777 && "$berth" limit team -q -m 1G)
check "whatever the umask, it is its user's" is "$(stat -c %a "$log")" 600
printf 'cut short' >>"$log"
run "$berth" limit team -q -m 512M
check "after a line that was cut short a new one begins" is "$(grep -c '^time=' "$log")" 4

# The order of berth run goes with the program: a worker that starts later doesn't undo a change.
mkfifo "$work/w.in"
"$berth" run -q --sim --name late -m 1G -- /bin/bash -c "echo up; read -r; printf 'alloc x 2G\ninfo\nquit\n' | '$client'; \
	read -r; printf 'info\nquit\n' | CUDA_DEVICE_MEMORY_LIMIT=256M '$client'" <"$work/w.in" >"$work/w.out" 2>&1 &
late=$!
children+=("$late")
exec {w}>"$work/w.in"
for _ in $(seq 200); do grep -q up "$work/w.out" && break; sleep 0.05; done
run "$berth" limit late -q -m 3G
echo >&"$w"
for _ in $(seq 400); do grep -q '^info' "$work/w.out" && break; sleep 0.05; done
check "a worker of an older order may use what was allowed since" has "$(cat "$work/w.out")" "x ok"
check "and sees it" is "$(grep '^info' "$work/w.out")" "info $((1024 * M)) $((3072 * M))"
check "the limit stays" is "$(limits late)" "3072 3072"
echo >&"$w"
wait "$late"
check "a limit that nobody ordered by berth run counts all the same" is "$(tail -n 1 "$work/w.out")" "info $((256 * M)) $((256 * M))"
exec {w}>&-
# And the other way: an order that is younger than the change.
run "$berth" run -q --sim --name late -m 128M -- "$client" </dev/null
check "a later berth run is later" is "$(limits late)" "128 128"
leave a
leave other
mv "$BERTH_STATE_DIR/shares/late" "$work/gone"
run "$berth" limit late --log
check "the log outlives the share" has "$out" " share=late "
run "$berth" limit late
check "which is gone" is "$status" 1

# What isn't asked for stays, of either kind, also in a share that nobody sits in.
figures() { "$berth" limit "$1" --json | jq -r '.gpus[0] | "\(.memory_limit_bytes) \(.compute_limit_percent)"'; }
"$berth" run -q --sim -n kinds -m 2G -c 30 -- /bin/true
"$berth" run -q --sim -n kinds -m 3G -- /bin/true
check "a new memory limit leaves the compute limit" is "$(figures kinds)" "$((3072 * 1024 * 1024)) 30"
run "$berth" run --sim -n kinds -c 50 -- /bin/true
check "a new compute limit leaves the memory limit" is "$(figures kinds)" "$((3072 * 1024 * 1024)) 50"
check "and nobody is said to use it" is "${err#*is in use}" "$err"

# However the environment and the output are.
run env POSIXLY_CORRECT=1 "$berth" limit kinds -m 4G
check "options may stand behind, whatever POSIXLY_CORRECT says" is "$status $(figures kinds)" "0 $((4096 * 1024 * 1024)) 50"
run "$berth" limit -Xq kinds
check "an unknown letter is named" has "$err" "unknown option -X"
stdbuf -o0 "$berth" limit kinds >/dev/full 2>/dev/null
check "a full disk behind unbuffered output is a failure" is "$?" 1

mkdir "$work/away"
cp "$BERTH_STATE_DIR/shares/kinds/region.cache" "$work/away/r.cache"
"$berth" limit -q "$work/away/r.cache" -m 5G
rm -r "$work/away"
run "$berth" limit "$work/away/r.cache" --log
check "the log tells of a region whose directory is gone" has "$out" "->$((5120 * 1024 * 1024)) "
end
