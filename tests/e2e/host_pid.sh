#!/bin/bash
# The three ways to the host pid: the initial namespace (nothing is asked), a broker that is well, absent or of no use,
# and the probe; on four GPUs, too, and without a context that the program didn't make itself.
# shellcheck source=host_pid_lib.sh
. "$(dirname "$0")/host_pid_lib.sh"
socket=$BERTH_NODE_DIR/broker.sock

# In the host's own pid namespace.
if [ "$(readlink /proc/self/ns/pid)" = 'pid:[4026531836]' ]; then
	mkfifo "$work/host.in"
	strace -f -o "$work/trace" -e trace=openat,open,connect "$berth" run -q --sim --name host -m 1G -- "$client" \
		<"$work/host.in" >"$work/host.out" 2>&1 &
	tracer=$! box=$! box_name=host
	children+=("$tracer")
	# shellcheck disable=SC2093 # no program: it opens a descriptor
	exec {box_in}>"$work/host.in"
	check "host: a program starts" await ready host
	check "host: its pid is its own" is "$(seats)" "$(seat_of "$(pgrep -P "$tracer")" initial)"
	quit
	check "host: no broker and no lock was looked for" is "$(grep -c "$BERTH_NODE_DIR" "$work/trace")" 0
	check "host: the trace has seen something" grep -q gpu_client "$work/trace"
else
	echo "note  not in the initial pid namespace: that way isn't looked at"
fi

# The probe.
boxed alone
check "probe: a program starts" await ready alone
check "probe: finds its pid at the first try" is "$(seats)" "$(seat_of "$(program)" probe)"
check "probe: nothing to say of it" is "$(warnings)" 0
check "probe: its limit is exact" exact
quit

# berthd.
"$BERTH_BUILD/bin/berthd" --any-namespace 2>"$work/berthd.err" &
berthd=$!
children+=("$berthd")
check "berthd: it listens" await test -S "$socket"
boxed served
check "berthd: a program starts" await ready served
check "berthd: learns its pid" is "$(seats)" "$(seat_of "$(program)" broker)"
check "berthd: its limit is exact" exact
quit
kill "$berthd"
wait "$berthd"
check "berthd: its socket stays" test -S "$socket"
boxed late
check "berthd has gone: a program starts" await ready late
check "berthd has gone: it probes" is "$(seats)" "$(seat_of "$(program)" probe)"
check "berthd has gone: which is no news" is "$(warnings)" 0
quit
rm "$socket"

# Brokers that are of no use: fake_broker.py says what each of them does. "silent" answers after 10 s.
fake() { # MODE PATH [ARGUMENT]
	python3 "$BERTH_SOURCE/tests/e2e/fake_broker.py" "$@" &
	fake=$!
	children+=("$fake")
	await test -e "$2.ready"
}
unfake() {
	kill "$fake"
	wait "$fake" 2>/dev/null
	rm -f "$1" "$1.ready"
}
for mode in silent trickle magic version status zero huge short long hangup peer; do
	check "broker, $mode: is there" fake $mode "$socket"
	boxed "with_$mode"
	check "broker, $mode: a program starts" await ready "with_$mode"
	check "broker, $mode: it probes" is "$(seats)" "$(seat_of "$(program)" probe)"
	check "broker, $mode: one line says why" is "$(grep -c 'broker of host pids is of no use' "$work/with_$mode.err")" 1
	check "broker, $mode: its limit is exact" exact
	quit
	unfake "$socket"
done

check "broker of another user: is there" fake good "$socket" 1
chown 61001 "$socket"
boxed foreign
check "broker of another user: a program starts" await ready foreign
check "broker of another user: it probes" is "$(seats)" "$(seat_of "$(program)" probe)"
check "broker of another user: one line says why" is "$(grep -c 'broker of host pids is of no use' "$work/foreign.err")" 1
quit
unfake "$socket"

# One that tells the pid of another program on the GPU.
boxed other
check "lying broker: a neighbour is on the GPU" await ready other
other=$(program) other_in=$box_in
check "lying broker: is there" fake good "$socket" "$other"
share=mine
boxed deceived
check "lying broker: a program starts" await ready deceived
check "lying broker: it isn't believed, but the proof" has "$(seats)" "$(seat_of "$(program)" probe | tr -d '[]')"
check "lying broker: one line says so" is "$(grep -c 'not believed' "$work/deceived.err")" 1
quit
unfake "$socket"
box_in=$other_in quit
share=all

# HAMi's, where it is wanted.
mkdir -m 755 "$BERTH_NODE_DIR/hostpid"
hami=$BERTH_NODE_DIR/hostpid/broker.sock
check "HAMi's broker: is there" fake own "$hami"
boxed unasked
check "HAMi's broker: a program that doesn't want it starts" await ready unasked
check "HAMi's broker: and probes" is "$(seats)" "$(seat_of "$(program)" probe)"
quit
boxed hami LIBVGPU_HOSTPID_BROKER=1
check "HAMi's broker: a program starts" await ready hami
check "HAMi's broker: learns its pid" is "$(seats)" "$(seat_of "$(program)" broker)"
quit
unfake "$hami"

# Four GPUs, some of them visible, in whatever order.
export BERTH_SIM_GPUS=4x8G BERTH_SIM_STATE=$work/sim/four
share=four
boxed four
check "four GPUs: a program starts" await ready four
uuid=$("$berth" ps --json | jq -r '.[0].gpus[2].uuid')
quit
for visible in 2,3 3,0 "$uuid"; do
	boxed four CUDA_VISIBLE_DEVICES="$visible"
	check "visible $visible: a program starts" await ready four
	check "visible $visible: finds its pid at the first try" is "$(seats)" "$(seat_of "$(program)" probe)"
	quit
done
share=all
export BERTH_SIM_GPUS=1x8G BERTH_SIM_STATE=$work/sim/node

# Contexts are the program's own: as many calls as without Berth.
contexts() { "$BERTH_BUILD/bin/berth-sim-log" --names "$1" | grep -cE 'cuCtxCreate|cuDevicePrimaryCtxRetain'; }
BERTH_SIM_LOG=$work/bare.log LD_LIBRARY_PATH=$BERTH_BUILD/lib/sim "$client" </dev/null >/dev/null
boxed logged BERTH_SIM_LOG="$work/boxed.log"
check "contexts: a program starts" await ready logged
check "contexts: finds its pid" is "$(seats)" "$(seat_of "$(program)" probe)"
quit
check "contexts: the program makes some" [ "$(contexts "$work/bare.log")" -gt 0 ]
check "contexts: and nobody makes more" is "$(contexts "$work/boxed.log")" "$(contexts "$work/bare.log")"

# Children that a shell has forked, and a program that it becomes.
mkfifo "$work/pair.in"
# shellcheck disable=SC2016 # for the inner shells
unshare -pf --kill-child bash -c '"$@"; exit' - "$berth" run -q --sim --name all -m 1G -- bash -c \
	'"$0" </dev/stdin & exec "$0" </dev/stdin' "$client" <"$work/pair.in" >"$work/pair.out" 2>&1 &
pair=$!
children+=("$pair")
# shellcheck disable=SC2093 # no program: it opens a descriptor
exec {box_in}>"$work/pair.in"
both() { [ "$(grep -c ready "$work/pair.out")" = 2 ]; }
check "a child and the program that its parent becomes: both start" await both
became=$(program "$pair")
clients=$(printf '%s\n' "$became" "$(pgrep -P "$became")" | sort -n | paste -sd ' ')
check "each finds its own pid" is "$("$berth" ps --json | jq -r '[.[].processes[].host_pid] | sort | join(" ")')" "$clients"
exec {box_in}>&-
wait "$pair"
end
