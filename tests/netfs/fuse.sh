#!/bin/bash
# The record lock on a FUSE file system whose daemon is slow, deaf, stopped, killed, or without locks (lockfs.c). The
# library must poll there; the daemon's own counts are the witness that it never blocks.
#
# What a dead or stopped daemon means, as seen here:
#	stopped	a try (F_SETLK) is a question to the daemon: who asks waits for the answer, beyond his deadline, until
#		the daemon goes on or ends; and who is killed can't die before that, as the kernel tells the daemon of
#		each file that a dying process had open (FUSE_FLUSH), and waits. Any use of that mount is the same.
#		No way to lock bounds it. Bounded is: nobody comes in, and all is well as soon as it goes on.
#	killed	whoever waits gets ENOTCONN or ECONNABORTED, at once.
# And what F_SETLKW would be (the controls): a waiter that SIGKILL doesn't end, a mount that is deadlocked
# for good once as many wait as the daemon has threads.
#
# Everything happens in namespaces of its own: no mount and no daemon outlives the script, however it ends.
if [ "${NETFS_INSIDE-}" != yes ]; then
	export NETFS_INSIDE=yes
	kind=--mount
	[ "$(id -u)" = 0 ] || kind='--user --map-root-user --mount'
	# shellcheck disable=SC2086 # words
	unshare $kind --pid --fork true 2>/dev/null || { echo "skip  no namespaces can be made here"; exit 77; }
	# shellcheck disable=SC2086
	exec unshare $kind --propagation private --pid --fork --kill-child --mount-proc bash "$0" "$@"
fi
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
[ -x "$BERTH_BUILD/bin/lockfs" ] || skip "built without libfuse3"
[ -r /dev/fuse ] || skip "no /dev/fuse here"
m=$work/m
mkdir "$m"
lockfs_pid=

down() {
	[ -n "$lockfs_pid" ] && kill -9 "$lockfs_pid" 2>/dev/null
	{ wait "$lockfs_pid"; } 2>/dev/null
	umount -l "$m" 2>/dev/null
	lockfs_pid=
}
up() { # OPTIONS
	down
	"$BERTH_BUILD/bin/lockfs" ${1:+-o "$1"} "$m" >"$work/lockfs" 2>&1 &
	lockfs_pid=$!
	for _ in $(seq 200); do
		grep -q ready "$work/lockfs" && return 0
		kill -0 "$lockfs_pid" 2>/dev/null || break
		sleep 0.05
	done
	cat "$work/lockfs"
	return 1
}
trap 'down; finish' EXIT
counted() { sed -n "s/^$1	//p" "$m/counts"; }

up delay_ms=50 || skip "lockfs can't be mounted here: $(cat "$work/lockfs")"
check "it is a FUSE mount" is "$(stat -f -c %t "$m")" 65735546
through "fuse" "$m/lock" kill
through "fuse" "$m/lock" give
killed "fuse" "$m/lock"
deadline "fuse" "$m/lock"
check "fuse: the daemon has seen tries" at_least "$(counted try)" 200
check "fuse: and not one request that blocks" is "$(counted block)" 0
check "fuse: and holds nothing any more" is "$(counted held)" 0

up ignore_interrupts,delay_ms=-1
through "deaf daemon" "$m/lock" kill
killed "deaf daemon" "$m/lock"
crowd "$m/lock" --way setlkw --waiters 1 --event waiters
check "control: F_SETLKW on a deaf daemon can't be killed" told unkillable 1

up delay_ms=0
crowd "$m/lock" --way setlkw --patience-ms 2000 --then "kill -9 $lockfs_pid"
check "control: 16 in F_SETLKW deadlock the mount: nobody comes in after the owner's death" told slow_at_first 16
check "control: till the daemon is killed" told slow 0

up ""
crowd "$m/lock" --timeout-ms 2000 --event "kill -STOP $lockfs_pid" --patience-ms 4000 --then "kill -CONT $lockfs_pid"
check "stopped daemon: 16 are seen waiting" told seen_waiting 16
printf 'figure\tstopped daemon\t%s of 16 not back at their deadline\n' "$(value slow_at_first)"
check "stopped daemon: nobody comes in" told entered 0
printf 'figure\tstopped daemon\t%s killed waiter(s) can not die meanwhile\n' "$(value hangs_dying)"
check "stopped daemon: the killed is gone when it goes on" told unkillable 0
check "stopped daemon: and the others come back" told slow 0
check "stopped daemon: with ETIMEDOUT" is $(($(value timed_out) + $(value killed))) 16
through "after it went on" "$m/lock" kill

crowd "$m/lock" --event "kill -9 $lockfs_pid" --patience-ms 20000
check "killed daemon: 16 were seen waiting" told seen_waiting 16
check "killed daemon: all come back" told slow 0
check "killed daemon: nobody with the lock" told entered 0
check "killed daemon: all with an error" told refused 16
case $(value error) in
ENOTCONN | ECONNABORTED) pass "killed daemon: which says so ($(value error))" ;;
*) fail "killed daemon: the error is $(value error)" ;;
esac
check "killed daemon: the callback is told" at_least "$(value reports)" 1

for row in ENOLCK:37 ENOSYS:38 EIO:5; do
	up "lock_error=${row#*:}"
	crowd "$m/lock"
	check "no locks (${row%:*}): the error is returned" told owner "${row%:*}"
	check "no locks (${row%:*}): and told to the callback" at_least "$(value reports)" 1
done

up no_locks
through "locks kept by the kernel" "$m/lock" kill
end
