#!/bin/bash
# Each way in which the probe of the host pid can fail: the program starts, its limit is exact, one line and
# `berth ps` say what is missing, a wrong pid is never told; and where the obstacle goes away the pid is found with a
# later allocation.
# shellcheck source=host_pid_lib.sh
. "$(dirname "$0")/host_pid_lib.sh"
lock=$BERTH_NODE_DIR/probe.lock
export BERTH_SIM_FAULT_FILE=$work/faults
: >"$BERTH_SIM_FAULT_FILE"
faults() { # LINE: in force for programs that run already
	echo "$1" >"$work/faults.new"
	mv "$work/faults.new" "$BERTH_SIM_FAULT_FILE"
}

# meets WHAT PS-TEXT LOG-TEXT [VARIABLE=VALUE...]: a program starts behind the obstacle
meets() {
	local what=$1
	boxed met "${@:4}"
	check "$what: a program starts" await ready met
	check "$what: without its pid" is "$(seats)" "$(seat_of 0 unknown)"
	check "$what: ps says why" has "$(missing)" "$2"
	check "$what: so does the log" grep -q "the host pid of this process is unknown: .*$3" "$work/met.err"
	check "$what: in one line" is "$(warnings)" 1
	check "$what: its limit is exact" exact
}
goes() { # WHAT: the obstacle has gone
	check "$1, gone: its pid is found with an allocation" await found probe
	check "$1, gone: nothing more was said" is "$(warnings)" 1
	check "$1, gone: its limit is exact" exact
	quit
}

meets "no node directory" "share no directory" "no directory that can be used" BERTH_NODE_DIR="$work/later"
sleep 1.1 # then the next try is due
check "no node directory: the next try finds nothing either" is "$(found probe; echo $?)" 1
check "no node directory: and says nothing more" is "$(warnings)" 1
mkdir -m 755 "$work/later"
goes "no node directory"

chown 61001 "$BERTH_NODE_DIR"
meets "foreign directory" "not root's alone" "belongs to user 61001"
chown 0 "$BERTH_NODE_DIR"
goes "foreign directory"

chmod 777 "$BERTH_NODE_DIR"
meets "directory that others can write" "not root's alone" "can be written by others"
chmod 755 "$BERTH_NODE_DIR"
goes "directory that others can write"

rm -f "$lock"
ln -s elsewhere "$lock"
meets "lock is a symlink" "not root's alone" "probe.lock is not a regular file"
check "lock is a symlink: it isn't followed" [ ! -e "$BERTH_NODE_DIR/elsewhere" ]
rm "$lock"
goes "lock is a symlink"

rm -f "$lock"
mkdir "$lock"
meets "lock is a directory" "not root's alone" "probe.lock is not a regular file"
rmdir "$lock"
goes "lock is a directory"

install -m 644 -o 61001 /dev/null "$lock"
meets "lock of another user" "not root's alone" "must belong to root or to user 0"
chown 0 "$lock"
goes "lock of another user"

chmod 666 "$lock"
meets "lock that others can write" "not root's alone" "nobody else may write it"
chmod 600 "$lock"
goes "lock that others can write"

# Whoever holds the lock and is stopped: a wait of 2 s, once.
holder() {
	python3 -c 'import fcntl, os, signal, sys
lock = open(sys.argv[1], "r+")
fcntl.lockf(lock, fcntl.LOCK_EX, 1, 0x40000000)
open(sys.argv[2], "w").close()
os.kill(os.getpid(), signal.SIGSTOP)' "$lock" "$work/held" &
	holder=$!
	children+=("$holder")
	await test -e "$work/held"
}
check "lock of a stopped process: it is held" holder
meets "lock of a stopped process" "held the probe lock" "held the probe lock"
kill -9 "$holder"
wait "$holder" 2>/dev/null
goes "lock of a stopped process"

ro=$work/ro
mkdir "$ro"
if unshare -m true 2>/dev/null; then
	# shellcheck disable=SC2016 # for the inner shell
	unshare -m --propagation private bash -c 'mount -t tmpfs -o mode=755 ro "$1" && mount -o remount,ro "$1" && touch "$1.made" && exec sleep 1000' - "$ro" &
	mounter=$!
	children+=("$mounter")
	await test -e "$ro.made"
	boxed met BERTH_NODE_DIR="/proc/$mounter/root$ro"
	check "read-only directory: a program starts" await ready met
	check "read-only directory: without its pid" is "$(seats)" "$(seat_of 0 unknown)"
	check "read-only directory: ps says why" has "$(missing)" "the probe lock can't be taken"
	check "read-only directory: so does the log" grep -q "Read-only file system" "$work/met.err"
	check "read-only directory: its limit is exact" exact
	quit
	kill "$mounter"
	wait "$mounter" 2>/dev/null
fi

faults "nvmlInit_v2:fail=999"
meets "NVML doesn't start" "does not tell containers" "NVML does not know the GPU"
faults "# none"
goes "NVML doesn't start"

faults "nvmlDeviceGetComputeRunningProcesses_v3:fail=3"
meets "no process list" "does not tell containers" "NVML does not list the processes"
faults "# none"
goes "no process list"

faults "cuMemCreate:fail=801"
meets "no memory by handle" "no room" "no physical memory by handle"
faults "# none"
goes "no memory by handle"

for quirk in empty-processes:"NVML lists no process" na-process-memory:"NVML lists no process" no-processes:"NVML does not list"; do
	meets "NVML: ${quirk%%:*}" "does not tell containers" "${quirk#*:}" BERTH_SIM_NVML_QUIRKS="${quirk%%:*}"
	quit
done
meets "NVML: stale-memory" "could be told to be this one" "could be told to be this one" BERTH_SIM_NVML_QUIRKS=stale-memory
quit

# NVML that speaks of this process by its own namespace's pid: what a container's view shows is what NVML's users see.
boxed own BERTH_SIM_NVML_QUIRKS=own-pid
check "NVML: own-pid: a program starts" await ready own
inside=$(awk '/^NSpid:/ { print $NF }' "/proc/$(program "$box")/status")
check "NVML: own-pid: the pid is the one that NVML lists" is "$(seats)" "$(seat_of "$inside" probe)"
check "NVML: own-pid: its limit is exact" exact
quit

# No room.
boxed full
check "share is full: a first program starts" await ready full
ask "alloc most 760M"
check "share is full: and takes most" is "$answer" "most ok"
full_in=$box_in full_box=$box
boxed met
check "share is full: a second starts" await ready met
check "share is full: ps says why" has "$(missing)" "no room"
check "share is full: so does the log" grep -q "the share has no room" "$work/met.err"
check "share is full: the limit is exact" exact
check "share is full: in one line" is "$(warnings)" 1
(echo quit >&"$full_in") 2>/dev/null
exec {full_in}>&-
wait "$full_box"
goes "share is full"

mkfifo "$work/bare.in"
LD_LIBRARY_PATH=$BERTH_BUILD/lib/sim "$client" <"$work/bare.in" >"$work/bare.out" &
bare=$!
children+=("$bare")
# shellcheck disable=SC2093 # no program: it opens a descriptor
exec {bare_in}>"$work/bare.in"
echo "alloc most 6G" >&"$bare_in"
check "GPU is full: a neighbour without Berth takes most" await grep -q "most ok" "$work/bare.out"
meets "GPU is full" "no room" "the GPU has no room"
echo "free most" >&"$bare_in"
goes "GPU is full"
echo quit >&"$bare_in"
wait "$bare"
end
