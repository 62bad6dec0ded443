#!/bin/bash
# The probe of the host pid, killed and stopped at each of its steps: what it took is back, its lock is
# free, the next one finds its own pid; beside a stopped one the next goes on in bounded time, its limit exact.
# shellcheck source=host_pid_lib.sh
. "$(dirname "$0")/host_pid_lib.sh"

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
	check "$point: once the stopped one is dead it is found with an allocation" await found probe
	quit
	rm "$work/victim.in" "$work/next.in"
done
end
