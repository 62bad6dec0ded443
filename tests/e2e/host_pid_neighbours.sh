#!/bin/bash
# The probe of the host pid beside others: two shares that probe at once, over and over, while programs without Berth
# come, allocate and go on the same GPU; and an NVML that lists new processes late. Each program gets its own pid or
# none, never another's.
#
# ROUNDS=N rounds (default 200).
# shellcheck source=host_pid_lib.sh
. "$(dirname "$0")/host_pid_lib.sh"
rounds=${ROUNDS:-200}

neighbours() { # till it is killed
	while :; do
		printf 'alloc x 32M\nchurn 0.2 64M\nfree x\n' | LD_LIBRARY_PATH=$BERTH_BUILD/lib/sim "$client" >/dev/null 2>&1
	done
}
neighbours &
neighbour=$!
children+=("$neighbour")

found=0 unknown=0 wrong=0 absent=0
judge() { # STATE-DIRECTORY PID
	local told
	told=$(BERTH_STATE_DIR=$1 "$berth" ps --json | jq -r '[.[].processes[].host_pid] | join(" ")')
	case $told in
	"$2") found=$((found + 1)) ;;
	0) unknown=$((unknown + 1)) ;;
	'') absent=$((absent + 1)) ;;
	*) wrong=$((wrong + 1)) && echo "      $2 was told $told" ;;
	esac
}
mkdir -m 700 "$work/one" "$work/two"
for _ in $(seq "$rounds"); do
	boxed one BERTH_STATE_DIR="$work/one"
	one=$box one_in=$box_in
	boxed two BERTH_STATE_DIR="$work/two"
	await ready one && await ready two
	judge "$work/one" "$(program "$one")"
	judge "$work/two" "$(program "$box")"
	quit
	box=$one box_in=$one_in quit
done
kill "$neighbour"
wait "$neighbour" 2>/dev/null
printf 'figure\t%d rounds of two\t%d found, %d unknown, %d wrong\n' "$rounds" "$found" "$unknown" "$wrong"
check "two at once: everybody was there" is "$absent" 0
check "two at once: nobody is taken for another" is "$wrong" 0
check "two at once: most are found at the first try" [ "$found" -ge "$rounds" ]

boxed late BERTH_SIM_NVML_LIST_LAG_MS=100
check "a list that is 100 ms late: a program starts" await ready late
check "a list that is 100 ms late: it finds its pid at the first try, or soon" await found probe
quit
boxed later BERTH_SIM_NVML_LIST_LAG_MS=2000
check "a list that is 2 s late: a program starts" await ready later
check "a list that is 2 s late: it doesn't wait for it" is "$(seats)" "$(seat_of 0 unknown)"
check "a list that is 2 s late: its limit is exact" exact
check "a list that is 2 s late: it finds its pid with an allocation" await found probe
quit

# The only one listed is a neighbour, and it grows: it isn't taken for the program that isn't listed yet.
mkfifo "$work/bare.in"
LD_LIBRARY_PATH=$BERTH_BUILD/lib/sim "$client" <"$work/bare.in" >"$work/bare.out" &
bare=$!
children+=("$bare")
# shellcheck disable=SC2093 # no program: it opens a descriptor
exec {bare_in}>"$work/bare.in"
echo "churn 5 64M" >&"$bare_in"
await grep -q ready "$work/bare.out"
boxed unlisted BERTH_SIM_NVML_LIST_LAG_MS=60000
check "beside a neighbour that grows: a program that isn't listed starts" await ready unlisted
check "beside a neighbour that grows: it isn't taken for it" is "$(seats)" "$(seat_of 0 unknown)"
quit
exec {bare_in}>&-
wait "$bare"
end
