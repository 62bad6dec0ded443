#!/bin/bash
# Many programs start at once: nothing of ours is held while the driver initialises itself, so one that is stuck
# there, or slow, is in nobody's way. PROCS=N programs (200).
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
export BERTH_SIM_GPUS=1x8G BERTH_SIM_CONTEXT_BYTES=0
procs=${PROCS:-200}
stuck=$((procs / 4))

seated() { "$berth" ps --all --json | jq '[.[] | select(.name == "storm") | .processes[]] | length'; }
# patiently COUNT: until so many sit there, or a minute is over
patiently() {
	local i
	for ((i = 0; i < 600; i++)); do
		[ "$(seated)" = "$1" ] && return
		sleep 0.1
	done
	echo "      $(seated) sit there, not $1"
	return 1
}

for ((i = 0; i < stuck; i++)); do
	BERTH_SIM_FAULTS=cuInit:block "$berth" run -q --sim --name storm -m 1G -- "$client" </dev/null >/dev/null 2>&1 &
	children+=($!)
done
check "$stuck programs are stuck in the driver's cuInit, each with its seat" patiently "$stuck"
actor last --name storm -m 1G
tell last alloc x 1G
check "one more gets in, and all of the limit" is "$answer" "x ok"
check "its figures are told beside them" is "$(seated)" $((stuck + 1))
leave last
for pid in "${children[@]:0:stuck}"; do kill -9 "$pid"; done
wait "${children[@]:0:stuck}" 2>/dev/null
check "they are dead at once" is "$(seated)" 0

export BERTH_SIM_FAULTS=cuInit:sleep=5ms
started=()
for ((i = 0; i < procs; i++)); do
	echo quit | "$berth" run -q --sim --name storm -m 1G -- "$client" >"$work/out.$i" 2>&1 &
	started+=($!)
done
ended_well=0
for pid in "${started[@]}"; do wait "$pid" && ended_well=$((ended_well + 1)); done
check "$procs programs start at once, with a cuInit that takes 5 ms: all get in" is "$ended_well" "$procs"
check "and each was ready" is "$(cat "$work"/out.* | grep -c '^ready')" "$procs"
unset BERTH_SIM_FAULTS
run "$berth" check storm --repair
check "the share is whole afterwards" is "$status" 0
check "and nobody sits there" is "$(seated)" 0
end
