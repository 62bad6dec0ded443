#!/bin/bash
# The probe of the host pid, killed and stopped at each of its steps: what it took is back, its lock is
# free, the next one finds its own pid; beside a stopped one the next goes on in bounded time, its limit exact.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || skip "needs root"
unshare -pf true 2>/dev/null || skip "no pid namespace can be made here"
export BERTH_SIM_GPUS=1x8G BERTH_SIM_PROC=/proc BERTH_NODE_DIR=$work/node
mkdir -m 755 "$BERTH_NODE_DIR"

boxed() { # NAME ENV... : a program in a pid namespace of its own, in share "all"; not as its first
	# process, which can't kill or stop itself
	mkfifo "$work/$1.in"
	# shellcheck disable=SC2016 # for the inner shell
	env "${@:2}" unshare -pf --kill-child bash -c '"$@"; exit' - "$berth" run -q --sim --name all -m 1G -- "$client" \
		<"$work/$1.in" >"$work/$1.out" 2>"$work/$1.err" &
	box=$!
	children+=("$box")
	# shellcheck disable=SC2093 # no program: it opens a descriptor
	exec {box_in}>"$work/$1.in"
}
await() { # COMMAND...: until it succeeds
	for _ in $(seq 600); do "$@" && return 0; sleep 0.05; done
	return 1
}
program() { pgrep -P "$(pgrep -P "${1-$box}")"; } # as the outer namespace names it
ready() { grep -q ready "$work/$1.out"; }
ended() { ! kill -0 "$box" 2>/dev/null || [ "$(cut -d ' ' -f 3 "/proc/$box/stat" 2>/dev/null)" = Z ]; }
stopped() { [ "$(cut -d ' ' -f 3 "/proc/$(program)/stat" 2>/dev/null)" = T ]; }
seats() { "$berth" ps --json | jq -c '[.[].processes[] | {host_pid, host_pid_source}]'; }
missing() { "$berth" ps --json | jq -r '.[].processes[] | .host_pid_missing // "nothing"'; }
charged() { "$berth" ps --all --json | jq '.[0].gpus[0].charged_bytes'; }
nobody() { [ "$(charged)" = 0 ]; }
quit() { echo quit >&"$box_in"; exec {box_in}>&-; wait "$box"; }

points=$(sed -n 's/^CRASH_POINT(\(probe_[a-z_]*\),.*/\1/p' "$BERTH_SOURCE/src/base/crash_points.def")
check "the probe has crash points" [ -n "$points" ]
for point in $points; do
	boxed victim BERTH_CRASH_AT="$point"
	check "$point: a program is killed there" await ended
	exec {box_in}>&-
	check "$point: what it was charged is back" await nobody
	boxed next
	check "$point: the next one starts" await ready next
	check "$point: and finds its own pid" is "$(seats)" "[{\"host_pid\":$(program),\"host_pid_source\":\"probe\"}]"
	quit
	rm "$work/victim.in" "$work/next.in"

	boxed victim BERTH_CRASH_AT="$point:stop"
	check "$point: a program is stopped there" await stopped
	stopped_box=$box stopped_in=$box_in
	boxed next
	check "$point: the next one starts beside it" await ready next
	check "$point: without its pid, and says why" has "$(missing)" "held the probe lock"
	echo "alloc a 100G" >&"$box_in"
	check "$point: its limit holds" await grep -q "a error 2" "$work/next.out"
	echo "alloc b 500M" >&"$box_in"
	check "$point: what fits is granted" await grep -q "b ok" "$work/next.out"
	kill -9 "$(program "$stopped_box")"
	exec {stopped_in}>&-
	wait "$stopped_box" 2>/dev/null
	found() {
		echo "alloc c 1M" >&"$box_in"
		echo "free c" >&"$box_in"
		[ "$(seats)" = "[{\"host_pid\":$(program),\"host_pid_source\":\"probe\"}]" ]
	}
	check "$point: once the stopped one is dead it is found with an allocation" await found
	quit
	rm "$work/victim.in" "$work/next.in"
done
end
