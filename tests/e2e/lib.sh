# shellcheck shell=bash
# For the scripts in tests/e2e and tests/clients: one state directory a script, plain checks, a count at the end.
# BERTH_BUILD and BERTH_SOURCE come from CTest.
set -u
: "${BERTH_BUILD:?run by ctest, or name a build directory}" "${BERTH_SOURCE:?run by ctest, or name the sources}"
berth=$BERTH_BUILD/bin/berth
# shellcheck disable=SC2034 # the scripts use it
client=$BERTH_BUILD/bin/gpu_client
work=$(mktemp -d "${TMPDIR:-/tmp}/berth-test.XXXXXX")
chmod 700 "$work"
export BERTH_STATE_DIR=$work/state
unset BERTH_REGION BERTH_SHARE CUDA_VISIBLE_DEVICES LD_PRELOAD BERTH_LIBDIR
passed=0 failed=0
children=()

finish() {
	local status=$? pid
	# Not the pids in children: that of one that has been waited for is some other process's by now.
	for pid in $(jobs -pr); do kill -9 "$pid" 2>/dev/null; done
	rm -rf "$work"
	# a script that broke off half-way has not passed
	[ "${ended-}" = yes ] || { echo "the script ended early (status $status)"; exit 1; }
}
trap finish EXIT

pass() { passed=$((passed + 1)); echo "ok    $*"; }
fail() { failed=$((failed + 1)); echo "FAIL  $*"; }
# check TEXT COMMAND...: the command's success is the check
check() {
	local text=$1
	shift
	if "$@"; then pass "$text"; else fail "$text   [$*]"; fi
}
# run COMMAND...: sets $status, $out and $err
run() {
	"$@" >"$work/out" 2>"$work/err" </dev/null
	status=$?
	# shellcheck disable=SC2034 # for the scripts
	out=$(cat "$work/out") err=$(cat "$work/err")
}
has() { case $1 in *"$2"*) true ;; *) echo "      missing '$2' in: $1"; false ;; esac; }
is() { [ "$1" = "$2" ] || { echo "      '$1' is not '$2'"; false; }; }
skip() { echo "skip  $*"; ended=yes; exit 77; }
end() {
	ended=yes
	echo "$passed passed, $failed failed"
	[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
	exit
}

# actor NAME BERTH-RUN-OPTIONS...: a gpu_client under berth run that waits for lines; tell NAME LINE sets $answer.
declare -A actor_to actor_from actor_pid
actor() {
	local name=$1 line fd_to fd_from
	shift
	mkfifo "$work/$name.in" "$work/$name.out"
	"$berth" run -q --sim "$@" -- "$client" <"$work/$name.in" >"$work/$name.out" 2>"$work/$name.err" &
	actor_pid[$name]=$!
	children+=($!)
	# shellcheck disable=SC2093 # no program: it opens descriptors
	exec {fd_to}>"$work/$name.in" {fd_from}<"$work/$name.out"
	actor_to[$name]=$fd_to actor_from[$name]=$fd_from
	read -r -t 60 -u "$fd_from" line
	case $line in ready*) ;; *) echo "actor $name: $line"; cat "$work/$name.err" ;; esac
}
tell() {
	local name=$1
	shift
	echo "$*" >&"${actor_to[$name]}"
	# shellcheck disable=SC2034 # for the scripts
	answer='(none)'
	# shellcheck disable=SC2034
	read -r -t 60 -u "${actor_from[$name]}" answer
}
leave() {
	echo quit >&"${actor_to[$1]}"
	wait "${actor_pid[$1]}"
}
