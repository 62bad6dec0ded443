#!/bin/bash
# Programs of one share: they meet by name, keep one limit together, and their death gives all back.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
export BERTH_SIM_GPUS=1x8G BERTH_SIM_CONTEXT_BYTES=0

charged() { "$berth" ps --all --json | jq -r --arg n "$1" '.[] | select(.name == $n) | .gpus[0].charged_bytes'; }
members() { "$berth" ps --all --json | jq -r --arg n "$1" '.[] | select(.name == $n) | .processes | length'; }
M=$((1024 * 1024))

actor a --name team -m 1G
actor b --name team -m 1G
check "two programs of one name sit in one share" is "$(members team)" 2
tell a alloc x 600M
check "a's 600 MiB are granted" is "$answer" "x ok"
check "and charged" is "$(charged team)" $((600 * M))
tell b alloc y 600M
check "b's 600 MiB do not fit any more" is "$answer" "y error 2 CUDA_ERROR_OUT_OF_MEMORY"
tell b info
check "b sees what the share has left, in all of it" is "$answer" "info $((424 * M)) $((1024 * M))"
tell b alloc z 424M
check "what fits is granted, to the byte" is "$answer" "z ok"
tell b alloc one 1
check "and not one byte more" is "$answer" "one error 2 CUDA_ERROR_OUT_OF_MEMORY"

actor c --name other -m 4G
tell c alloc big 3G
check "another share of the same card is not touched" is "$answer" "big ok"
tell c fill big 7
tell c check big 7
check "and its memory is real" is "$answer" "big same"

kill -9 "${actor_pid[a]}"
wait "${actor_pid[a]}" 2>/dev/null
check "after SIGKILL a's 600 MiB are back at once" is "$(charged team)" $((424 * M))
tell b alloc y 600M
check "and go to the next who asks" is "$answer" "y ok"

run "$berth" run --sim --name team -m 2G -- /bin/true
check "a larger limit is told which one is in force" has "$err" "its limits stay in force"
check "namely" has "$err" "memory 1 GiB"
run "$berth" run --sim --name team -m 512M -- /bin/true
check "a smaller one is in force from now on" has "$err" "the smaller limits asked for are in force"
run "$berth" run --sim --name team -- /bin/true
check "none never wins" has "$err" "its limits stay in force"
tell b free y
tell b alloc y 100M
check "the lowered limit refuses until it fits" is "$answer" "y error 2 CUDA_ERROR_OUT_OF_MEMORY" || true
tell b free z
tell b alloc y 512M
check "and then grants up to it" is "$answer" "y ok"
leave b
leave c
check "the last to leave leaves nothing charged: team" is "$(charged team)" 0
check "other" is "$(charged other)" 0

run "$berth" run --sim --name team -m 3G -- "$client" </dev/null
check "nobody sits in it: a new limit is taken as it is" is "$status" 0
run "$berth" ps --all --json
check "and shown" is "$(printf '%s' "$out" | jq -r '.[] | select(.name == "team") | .gpus[0].memory_limit_bytes')" $((3072 * M))
run "$berth" run --sim --name team -- /bin/true
check "leaving the limit out doesn't lift it" has "$err" "memory 3 GiB"
run "$berth" ps --all --json
check "also while nobody sits there" is "$(printf '%s' "$out" | jq -r '.[] | select(.name == "team") | .gpus[0].memory_limit_bytes')" $((3072 * M))

# The sweep of left-over shares follows no links in a directory that others may write.
"$berth" run -q --sim --name kept -m 1G -- /bin/true
touch -d '1 hour ago' "$BERTH_STATE_DIR/shares/kept/region.cache"
mkdir -p "$work/open/shares"
ln -s "$BERTH_STATE_DIR/shares/kept" "$work/open/shares/x@2000000000"
chmod g+w "$work/open"
run env BERTH_STATE_DIR="$work/open" "$berth" run --sim -m 1G -- /bin/true
check "a state directory that others may write is refused" is "$status" 125
check "and nothing was removed through it" test -e "$BERTH_STATE_DIR/shares/kept/region.cache"

# A share that is renewed before a program of it comes to its GPU: the smaller limit is in force.
mkfifo "$work/slow"
"$berth" run -q --sim --name slow -m 1G -- /bin/sh -c "read _ <'$work/slow'; printf 'info\nquit\n' | '$client'" \
	>"$work/slow.out" 2>&1 &
slow=$!
children+=("$slow")
for _ in $(seq 100); do [ -e "$BERTH_STATE_DIR/shares/slow/region.cache" ] && break; sleep 0.05; done
run "$berth" run -q --sim --name slow -m 8G -- /bin/true
echo go >"$work/slow"
wait "$slow"
check "who asked for 1 GiB has 1 GiB" is "$(tail -n 1 "$work/slow.out")" "info $((1024 * M)) $((1024 * M))"
# Limits in the environment of a program in a share: the smaller ones are in force.
info=$(printf 'info\nquit\n' | "$berth" run -q --sim -m 2G -- env CUDA_DEVICE_MEMORY_LIMIT=512M "$client" | tail -n 1)
check "a smaller limit in the environment holds" is "$info" "info $((512 * M)) $((512 * M))"
info=$(printf 'info\nquit\n' | "$berth" run -q --sim -m 2G -- env CUDA_DEVICE_MEMORY_LIMIT=4G "$client" | tail -n 1)
check "a larger one doesn't" is "$info" "info $((2048 * M)) $((2048 * M))"
run env BERTH_SHARE=outer BERTH_REGION=/nowhere "$berth" run --sim --name inner -m 1G -- /bin/true
check "leaving one share for another is told" has "$err" "leaves share 'outer'"

# A share of one program goes away some time after it, unless something was started in it that is still there.
# shellcheck disable=SC2016 # for the inner shell
"$berth" run -q --sim -m 1G -- /bin/sh -c 'sleep 60 & echo $! >"$0"; exec true' "$work/sleeper"
children+=("$(cat "$work/sleeper")")
"$berth" run -q --sim -m 1G -- /bin/true
touch -d '20 minutes ago' "$BERTH_STATE_DIR"/shares/*@*/region.cache
"$berth" run -q --sim --name sweeper -m 1G -- /bin/true
check "a left-over share was swept" is "$(find "$BERTH_STATE_DIR/shares" -path '*true@*' -name region.cache | wc -l)" 0
check "one with somebody in it was not" is "$(find "$BERTH_STATE_DIR/shares" -path '*sh@*' -name region.cache | wc -l)" 1
sleeper=$(cat "$work/sleeper")
kill -9 "$sleeper"
for _ in $(seq 200); do [ -z "$(tr -d '\0' <"/proc/$sleeper/environ" 2>/dev/null)" ] && break; sleep 0.05; done
"$berth" run -q --sim --name sweeper -m 1G -- /bin/true
check "until they are gone" is "$(find "$BERTH_STATE_DIR/shares" -name '*sh@*' | wc -l)" 0

# Without the environment: whoever joins a share by its region only is limited all the same.
actor d --name late -m 1G
region=$BERTH_STATE_DIR/shares/late/region.cache
answer=$(printf 'alloc q 2G\nquit\n' | env -i PATH="$PATH" LD_PRELOAD="$BERTH_BUILD/lib/libberth-cuda.so" \
	LD_LIBRARY_PATH="$BERTH_BUILD/lib/sim" BERTH_STATE_DIR="$BERTH_STATE_DIR" BERTH_REGION="$region" "$client" | tail -n 1)
check "the region's limit holds without limits in the environment" is "$answer" "q error 2 CUDA_ERROR_OUT_OF_MEMORY"
rm -rf "$BERTH_STATE_DIR/shares/late"
answer=$(printf 'alloc q 2G\nquit\n' | env LD_PRELOAD="$BERTH_BUILD/lib/libberth-cuda.so" \
	LD_LIBRARY_PATH="$BERTH_BUILD/lib/sim" BERTH_REGION="$region" "$client" 2>"$work/err")
case $answer in ready*) fail "a program whose region is gone ran without a limit" ;; *) pass "a program whose region is gone gets no GPU" ;; esac
check "and is told why" has "$(cat "$work/err")" "$region"
kill -9 "${actor_pid[d]}"
end
