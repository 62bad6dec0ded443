#!/bin/bash
# berth ps: what it shows people and scripts.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
export BERTH_SIM_GPUS=2x8G BERTH_SIM_CONTEXT_BYTES=0
M=$((1024 * 1024))

run "$berth" ps
check "no shares: an empty table" is "$(printf '%s\n' "$out" | grep -c SHARE)" 1
run "$berth" ps --json
check "no shares: an empty list" is "$(printf '%s' "$out" | jq -c .)" "[]"

actor a --name vision -m 2G -c 30
actor b --gpu 1 -m 1G
tell a alloc x 600M
tell a alloc y 3G
tell b alloc z 100M
run "$berth" ps --json
json=$out
q() { printf '%s' "$json" | jq -r "$1"; }
check "both shares are there" is "$(q length)" 2
own=$(q '.[] | select(.name != "vision") | .name')
check "a share without a name is named for its program" is "$own" "gpu_client@${actor_pid[b]}"
check "limits stand in bytes" is "$(q '.[] | select(.name == "vision") | .gpus[0].memory_limit_bytes')" $((2048 * M))
check "the compute limit is recorded" is "$(q '.[] | select(.name == "vision") | .gpus[0].compute_limit_percent')" 30
check "a share has all GPUs unless one is chosen" is "$(q '.[] | select(.name == "vision") | .gpus | length')" 2
check "--gpu leaves one" is "$(q '.[] | select(.name != "vision") | .gpus | length')" 1
check "charged by GPU" is "$(q '.[] | select(.name == "vision") | [.gpus[].charged_bytes] | join(" ")')" "$((600 * M)) 0"
check "refusals are counted" is "$(q '.[] | select(.name == "vision") | .gpus[0].refusals')" 1
check "the process is named by its pid" is "$(q '.[] | select(.name == "vision") | .processes[0].pid')" "${actor_pid[a]}"
check "with its command" is "$(q '.[] | select(.name == "vision") | .processes[0].command')" "$client"
check "and its bytes" is "$(q '.[] | select(.name == "vision") | .processes[0].gpus[0].data_bytes')" $((600 * M))
run "$berth" ps
check "the table shows share, charge and limit" has "$(printf '%s\n' "$out" | tr -s ' ' | grep '^vision 0:')" "1 600 MiB 2 GiB 29 % 1"
check "no colours in a pipe" is "$(printf '%s' "$out" | grep -c "$(printf '\033')")" 0
if command -v script >/dev/null; then
	check "bold heads on a terminal" has "$(script -qc "$berth ps" /dev/null </dev/null)" "$(printf '\033[1m')"
fi
leave a
run "$berth" ps
check "a share that nobody sits in is not shown" is "$(printf '%s\n' "$out" | grep -c '^vision')" 0
run "$berth" ps --all
check "unless all are asked for" is "$([ "$(printf '%s\n' "$out" | grep -c '^vision')" -gt 0 ] && echo shown)" shown
kill -9 "${actor_pid[b]}"; wait "${actor_pid[b]}" 2>/dev/null
run "$berth" ps --json
check "nor one whose only process was killed" is "$(printf '%s' "$out" | jq -c .)" "[]"

# A process may call itself anything: escapes must not reach the terminal, and a name made to look like the end of
# a stat line must not make a living process look dead.
named() { # NAME: a program of that name sits in a share of its own
	cp "$client" "$work/$1" && mkfifo "$work/e.in"
	"$berth" run -q --sim -m 1G -- "$work/$1" <"$work/e.in" >"$work/e.out" 2>&1 &
	children+=($!)
	exec {e}>"$work/e.in"
	for _ in $(seq 200); do grep -q ready "$work/e.out" && break; sleep 0.05; done
	echo 'alloc x 300M' >&"$e"
	for _ in $(seq 200); do grep -q 'x ok' "$work/e.out" && break; sleep 0.05; done
	run "$berth" ps
	echo quit >&"$e"
	wait "${children[-1]}"
	exec {e}>&-
	rm "$work/e.in"
}
named "$(printf 'evil\033[31m')"
check "names chosen by others are escaped" is "$(printf '%s' "$out" | grep -c "$(printf '\033')")" 0
check "but shown" has "$out" 'evil\x1b[31m'
for name in 'a Zoo' ') Z 1 (' '               ' ') Z x'; do
	named "$name"
	check "'$name' lives, with what it holds" has "$(printf '%s' "$out" | tr -s ' ')" "1 300 MiB"
	check "'$name' is named" has "$out" "$work/$name"
done

# Nor is a region's text trusted: it is its users' to write.
"$berth" run -q --sim -m 1G --name scribbled -- /bin/true
region=$BERTH_STATE_DIR/shares/scribbled/region.cache
at=$(grep -abo scribbled "$region" | tail -n 1 | cut -d : -f 1)
printf '\033[31m\377\376' | dd of="$region" bs=1 seek="$at" conv=notrunc status=none
printf '\033[32m\377\376\033' | dd of="$region" bs=1 seek=68 conv=notrunc status=none
run "$berth" ps --all
check "no escapes from a region" is "$(printf '%s' "$out" | grep -c "$(printf '\033')")" 0
check "the share is named as its directory is" has "$out" "scribbled"
run "$berth" ps --all --json
check "JSON is printed all the same" is "$(printf '%s' "$out" | jq -r '.[] | select(.name == "scribbled") | .gpus[0].uuid[:5]')" 'GPU-?'
end
