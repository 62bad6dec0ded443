#!/bin/bash
# HAMi's monitor beside our programs: what it reads is what they hold, what it writes stays, and neither
# minds the other's comings and goings. monitor.py plays it, from the published layout alone.
# ROUNDS=N in the environment: so many starts and kills under its eyes (default 12).
# shellcheck source=../e2e/lib.sh
. "$(dirname "$0")/../e2e/lib.sh"
python3 -c 'import glob, json, mmap, select, struct' 2>/dev/null || skip "no python3 with mmap"
context=$((64 * 1024 * 1024))
export BERTH_SIM_GPUS=2x8G BERTH_SIM_CONTEXT_BYTES=$context
M=$((1024 * 1024))
dir=$BERTH_STATE_DIR/shares/team

monitor_start() { # NAME DIRECTORY
	local fd_to fd_from line
	mkfifo "$work/$1.in" "$work/$1.out"
	python3 "$BERTH_SOURCE/tests/contract/monitor.py" "$2" 0.02 <"$work/$1.in" >"$work/$1.out" &
	actor_pid[$1]=$!
	children+=($!)
	# shellcheck disable=SC2093 # no program: it opens descriptors
	exec {fd_to}>"$work/$1.in" {fd_from}<"$work/$1.out"
	actor_to[$1]=$fd_to actor_from[$1]=$fd_from
	read -r -t 60 -u "$fd_from" line
	case $line in ready*) ;; *) fail "the monitor: $line" ;; esac
}
# seen JQ: of what the monitor sees now
seen() {
	tell m look
	printf '%s' "$answer" | jq -rc "$1" || echo "      not JSON: $answer" >&2
}
shown() { "$berth" ps --all --json | jq -rc ".[] | select(.name == \"team\") | $1"; }

# N8: three processes with 100, 200 and 300 MiB.
actor a --name team -m 2G -c 40
actor b --name team -m 2G
actor c --name team -m 2G
monitor_start m "$dir"
tell a alloc x 100M
tell b alloc x 200M
tell c alloc x 300M
sizes="[$((100 * M)),$((200 * M)),$((300 * M))]"
of_each() { # FIELD, of the three processes in order, from the monitor
	seen ".processes as \$p | [\"${actor_pid[a]}\", \"${actor_pid[b]}\", \"${actor_pid[c]}\"] | map(\$p[.].gpus[0].$1)"
}
ps_of_each() {
	shown ".processes as \$p | [${actor_pid[a]}, ${actor_pid[b]}, ${actor_pid[c]}] | map(. as \$i | \$p[] | select(.pid == \$i) | .gpus[0].$1)"
}
totals="[$((100 * M + context)),$((200 * M + context)),$((300 * M + context))]"
sum=$((600 * M + 3 * context))
check "one *.cache file, before and after" is "$(seen .files)" 1
check "three processes, by their pids" is "$(seen '.processes | length')" 3
check "N8: each its own data: monitor" is "$(of_each data)" "$sizes"
check "N8: each its own data: ps" is "$(ps_of_each data_bytes)" "$sizes"
check "N8: with its context: monitor" is "$(of_each total)" "$totals"
check "N8: with its context: ps" is "$(ps_of_each charged_bytes)" "$totals"
check "N8: the sum: monitor" is "$(seen '.sums[0] | [.context, .module, .data, .total]')" "[$((3 * context)),0,$((600 * M)),$sum]"
check "N8: the sum: ps" is "$(shown '.gpus[0].charged_bytes')" "$sum"
for who in a b c; do
	tell "$who" info
	check "N8: the sum: program $who" is "$answer" "info $((2048 * M - sum)) $((2048 * M))"
done
check "nothing on the other GPU" is "$(seen '.sums[1].total')" 0
check "limits" is "$(seen '.limits')" "[$((2048 * M)),$((2048 * M))]"
check "compute limits" is "$(seen '.sm_limits')" "[40,40]"
check "the GPUs' names" is "$(seen '.uuids')" "$(shown '[.gpus[].uuid]')"

# What it writes stays, whatever our programs do meanwhile.
check "the switch is 1 from birth" is "$(seen .switch)" 1
tell m switch 0
tell m recent -1
tell m rounds 2
tell a free x
tell a alloc x 100M
tell b alloc y 50M
actor d --name team -m 2G
tell d alloc x 10M
tell m rounds 3
check "its switch stays" is "$(seen .switch)" 0
check "its pause stays" is "$(seen .recent)" -1
check "nothing was undone" is "$(seen .overwritten)" 0
tell m recent 5
tell m rounds 7
check "it counts down to 0" is "$(seen .recent)" 0
check "what NVML told it stands with each process" is "$(of_each monitorused)" "$(of_each total)"
check "and is not charged to anybody" is "$(shown '.gpus[0].charged_bytes')" $((sum + context + 60 * M))

# Limits hold under its eyes.
tell a alloc big 2G
check "what doesn't fit is refused" is "$answer" "big error 2 CUDA_ERROR_OUT_OF_MEMORY"
tell m rounds 1
check "and isn't seen" is "$(seen '.sums[0].total')" $((sum + context + 60 * M))
tell b free y
leave d

# Death. The monitor sees what the dead left until the next one sits down; the share doesn't count it.
kill -9 "${actor_pid[b]}"
wait "${actor_pid[b]}" 2>/dev/null
tell m rounds 2
dead=${actor_pid[b]}
check "ps shows two living at once" is "$(shown '.processes | length')" 2
check "and their charges" is "$(shown '.gpus[0].charged_bytes')" $((400 * M + 2 * context))
check "the monitor still sees the dead" is "$(seen ".processes[\"$dead\"].gpus[0].data")" $((200 * M))
for who in e f; do
	actor "$who" --name team -m 2G
	tell "$who" alloc x 20M
done
check "who sits down next empties their seats" is "$(seen ".processes | has(\"$dead\")")" false
check "so it sees the living" is "$(seen '.processes | length')" 4
check "and what they hold" is "$(seen '.sums[0].total')" "$(shown '.gpus[0].charged_bytes')"

# Another implementation sits down in our file.
tell m seat 9 4242 500
check "a foreign seat is told by ps" is "$(shown '.processes[] | select(.foreign) | .pid')" 4242
run "$berth" ps
check "in words" has "$(printf '%s' "$out" | grep 4242)" "not Berth's"
check "its bytes are not the share's" is "$(shown '.gpus[0].charged_bytes')" $((440 * M + 4 * context))
tell a alloc more 1500M
check "the limit holds beside it" is "$answer" "more error 2 CUDA_ERROR_OUT_OF_MEMORY"
tell a alloc more 1352M # 2048 - 440 - 4 x 64
check "and refuses nobody for its bytes" is "$answer" "more ok"
tell a free more
for who in g h i k l n; do actor "$who" --name team -m 2G; done
check "no newcomer takes its seat" is "$(seen '.processes["4242"].seat')" 9
check "all of ours have one" is "$(seen '.processes | length')" 11
run "$berth" check --repair team
check "a repair leaves it alone" is "$(seen '.processes["4242"].gpus[0].data')" $((500 * M))
tell m unseat 9
check "when it has left, there is no foreign seat" is "$(shown '[.processes[] | select(.foreign)] | length')" 0
actor o --name team -m 2G # of the places that were ever used, no other is free
check "its place is used again" is "$(seen '[.processes[].seat] | index(9) != null')" true
check "and nothing that it left there" is "$(seen '.sums[0].total')" "$(shown '.gpus[0].charged_bytes')"
check "in no kind of bytes" is "$(seen '.sums[0] | .context + .module + .data == .total')" true
check "the share is whole" is "$("$berth" check team | tail -n 1)" "team: whole"
for who in g h i k l n o; do leave "$who"; done

# Starts and kills under its eyes.
for ((i = 0; i < ${ROUNDS:-12}; i++)); do
	actor "r$i" --name team -m 2G
	tell "r$i" alloc x 30M
	case $i in *[13579]) leave "r$i" ;; *) kill -9 "${actor_pid[r$i]}"; wait "${actor_pid[r$i]}" 2>/dev/null ;; esac
done
run "$berth" check --repair team
tell m rounds 3
check "after many came and went it sees the living" is "$(seen '.processes | keys | length')" "$(shown '.processes | length')"
check "and what they hold" is "$(seen '.sums[0].total')" "$(shown '.gpus[0].charged_bytes')"
check "its own words still stand" is "$(seen '[.switch, .overwritten]')" "[0,0]"
for who in a c e f; do leave "$who"; done
run "$berth" check --repair team
check "at the end there is nothing left" is "$(seen '[.sums[0].total, .sums[1].total, (.processes | length)]')" "[0,0,0]"
fd=${actor_to[m]}
# shellcheck disable=SC2093 # no program: it closes a descriptor
exec {fd}>&-
wait "${actor_pid[m]}"
check "the monitor found no fault all the while" is "$?" 0

# A monitor first, then the first process: it finds the region of a share that nobody has used.
"$berth" run -q --sim --name fresh -m 1G -- /bin/true
monitor_start fresh "$BERTH_STATE_DIR/shares/fresh"
actor z --name fresh -m 1G
tell z alloc x 100M
tell fresh look
check "a monitor that comes first sees who comes later" is \
	"$(printf '%s' "$answer" | jq -c '.sums[0].data')" $((100 * M))
leave z
end
