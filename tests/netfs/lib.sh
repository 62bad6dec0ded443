# shellcheck shell=bash
# For the scripts of this directory: runs netfs_crowd, keeps what it said, judges it.
# shellcheck source=../e2e/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
LIMIT_MS=300 # for the last of 16 waiters

# crowd NAME=VALUE OPTION...: see netfs_crowd.c
crowd() {
	timeout -k 5 120 "$BERTH_BUILD/bin/netfs_crowd" "$@" >"$work/crowd" 2>"$work/crowd.err"
	crowd_status=$?
}
value() { sed -n "s/^$1	//p" "$work/crowd"; }
told() { # NAME WANTED: the crowd said so
	local got
	got=$(value "$1")
	[ "$got" = "$2" ] || { echo "      $1 is '$got', not '$2' (status ${crowd_status})"; cat "$work/crowd" "$work/crowd.err"; false; }
}
at_most() { awk -v a="${1:-none}" -v b="$2" 'BEGIN { exit !(a != "none" && a + 0 <= b + 0) }' || { echo "      $1 is more than $2"; false; }; }
at_least() { awk -v a="${1:-none}" -v b="$2" 'BEGIN { exit !(a != "none" && a + 0 >= b + 0) }' || { echo "      $1 is less than $2"; false; }; }

# What holds in every run, whatever happens to owner, waiters or file system.
never_two() { told overlaps 0 && told early 0; }
polled() { told way poll && told blocks 0; }

# through WHERE FILE EVENT: 16 waiters behind an owner, then EVENT; the last is through within LIMIT_MS. A busy
# machine may have three goes: what is wrong by design is wrong in all of them.
through() {
	local where=$1 file=$2 event=$3 go best=
	for go in 1 2 3; do
		crowd "$file" --event "$event"
		[ "$crowd_status" = 0 ] || break
		best=$(printf '%s\n%s\n' "$best" "$(value last_ms)" | grep . | sort -g | head -n 1)
		# the checks below are of the latest go, so a fault in any go counts
		if ! told entered 16 || ! never_two; then break; fi
		at_most "$best" "$LIMIT_MS" >/dev/null && break
	done
	check "$where: 16 are seen waiting" told seen_waiting 16
	check "$where: $event: all 16 come in" told entered 16
	check "$where: $event: one at a time, none early" never_two
	check "$where: by polling, never in the kernel's queue" polled
	polled >/dev/null || end # what comes now would only hang
	check "$where: nobody is left that can't be killed" told unkillable 0
	check "$where: $event: the last is through within $LIMIT_MS ms" at_most "$best" "$LIMIT_MS"
	printf 'figure\t%s\t%s\tfirst %s ms, last %s ms\n' "$where" "$event" "$(value first_ms)" "$best"
}

# deadline WHERE FILE: the owner keeps it; each waiter is back in time, knows whose fault it was, and asked seldom.
deadline() {
	crowd "$2" --timeout-ms 4000 --settle-ms 0 --event true
	check "$1: 16 wait for a deadline of 4 s" told seen_waiting 16
	check "$1: each gets ETIMEDOUT" told timed_out 16
	check "$1: with the owner's pid" told named_the_owner 16
	check "$1: none more than 1 s late" at_most "$(value late_ms)" 1000
	check "$1: by at most 20 tries a second" at_most "$(value tries_per_s)" 20.5
	check "$1: and they are counted" at_least "$(value tries)" 160
	check "$1: all of them by polling" polled
}

# killed WHERE FILE: waiters are SIGKILLed in the middle of their wait.
killed() {
	crowd "$2" --event waiters
	check "$1: 16 waiters are killed while they wait" told killed 16
	check "$1: and are gone at once, every one" told unkillable 0
}
