# shellcheck shell=bash
# For host_pid*.sh: programs in pid namespaces of their own, on a simulated GPU whose NVML speaks of them by their
# outer pids, and what `berth ps` says of them.
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[ "$(id -u)" = 0 ] || skip "needs root"
unshare -pf true 2>/dev/null || skip "no pid namespace can be made here"
export BERTH_SIM_GPUS=1x8G BERTH_SIM_PROC=/proc BERTH_NODE_DIR=$work/node BERTH_SIM_STATE=$work/sim/node
mkdir -m 755 "$BERTH_NODE_DIR"
share=all # in which a boxed program is
options=(-m 1G)

# boxed NAME [VARIABLE=VALUE...]: a gpu_client in a pid namespace of its own, not as its first process, which can't
# kill or stop itself. Sets $box and $box_in.
boxed() {
	rm -f "$work/$1.in"
	mkfifo "$work/$1.in"
	# shellcheck disable=SC2016 # for the inner shell
	env BERTH_LOG_LEVEL=warning "${@:2}" unshare -pf --kill-child bash -c '"$@"; exit' - \
		"$berth" run -q --sim --name "$share" "${options[@]}" -- "$client" \
		<"$work/$1.in" >"$work/$1.out" 2>"$work/$1.err" &
	box=$!
	children+=("$box")
	# shellcheck disable=SC2093 # no program: it opens a descriptor
	exec {box_in}>"$work/$1.in"
	box_name=$1
}
await() { # COMMAND...: until it succeeds
	for _ in $(seq 1200); do "$@" && return 0; sleep 0.025; done
	return 1
}
program() { pgrep -P "$(pgrep -P "${1-$box}")"; } # as the outer namespace names it
ready() { grep -q ready "$work/$1.out"; }
ended() { ! kill -0 "$box" 2>/dev/null || [ "$(cut -d ' ' -f 3 "/proc/$box/stat" 2>/dev/null)" = Z ]; }
stopped() { [ "$(cut -d ' ' -f 3 "/proc/$(program)/stat" 2>/dev/null)" = T ]; }
# ask LINE: to the program of the last boxed, which answers each with one; sets $answer to it.
ask() {
	local before
	before=$(wc -l <"$work/$box_name.out")
	more_lines() { [ "$(wc -l <"$work/$box_name.out")" -gt "$before" ]; }
	echo "$1" >&"$box_in"
	await more_lines
	answer=$(tail -n 1 "$work/$box_name.out")
}
# Of the share's programs. A process that has ended isn't there.
seats() { "$berth" ps --json | jq -c '[.[].processes[] | {host_pid, host_pid_source}]'; }
seat_of() { printf '[{"host_pid":%d,"host_pid_source":"%s"}]' "$@"; }
missing() { "$berth" ps --json | jq -r '.[].processes[] | .host_pid_missing // "nothing"'; }
charged() { "$berth" ps --all --json | jq '.[0].gpus[0].charged_bytes'; }
nobody() { [ "$(charged)" = 0 ]; }
quit() { # one that has ended already hears nothing
	(echo quit >&"$box_in") 2>/dev/null
	exec {box_in}>&-
	wait "$box"
}

# The limit of 1 GiB is exact: what is left of it is granted, and then not a byte.
exact() {
	ask "alloc rest $((1073741824 - $(charged)))"
	is "$answer" "rest ok" || return 1
	ask "alloc more 1"
	has "$answer" "more error 2" || return 1
	ask "free rest"
	is "$answer" "rest ok"
}
# Found with an allocation, once the time for the next try has come.
found() {
	ask "alloc crumb 4K"
	ask "free crumb"
	[ "$(seats)" = "$(seat_of "$(program)" "$1")" ]
}
warnings() { grep -c '^berth\[' "$work/$box_name.err"; }
