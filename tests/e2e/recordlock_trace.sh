#!/bin/bash
# What the record lock asks of the kernel, seen from outside by strace: a poller never asks for a blocking lock (F_SETLKW), makes
# no task that could, which strace would not see (CLONE_UNTRACED), and tries 20 times a second at most; where it blocks, each
# waiter has such a task. That those tasks are in the kernel's queue, and that pollers never are, the
# program sees in /proc/locks.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
command -v strace >/dev/null || skip "strace is not installed"
strace -f -o "$work/try" true 2>/dev/null || skip "strace may not trace here"
crowd=$BERTH_BUILD/bin/test_race_recordlock_crowd
unset WAYS

traced() { # LOG COMMAND...
	run strace -f -ttt -e trace=fcntl,clone,clone3 -e signal=none -o "$1" "${@:2}"
}
asked() { # LOG COMMAND: how many requests for a lock
	grep -c "fcntl([0-9]*, $2, {l_type=F_WRLCK" "$1"
}
tasks() { grep -c 'clone.*CLONE_UNTRACED' "$1"; }
# The most tries of one waiter in any 0.8 s: strace's clock may lag behind the waiter's by what is left of the second.
most_tries() { # LOG
	awk '/F_SETLK, \{l_type=F_WRLCK/ {
		n = ++count[$1]; at[$1, n] = $2
		if (!($1 in first)) first[$1] = 1
		while ($2 - at[$1, first[$1]] >= 0.8) first[$1]++
		if (n - first[$1] + 1 > most) most = n - first[$1] + 1
	} END { print most + 0 }' "$1"
}

BERTH_RECORDLOCK=poll traced "$work/poll" "$crowd" test_auto
check "8 pollers get through" is "$status" 0
check "no F_SETLKW" is "$(asked "$work/poll" F_SETLKW)" 0
check "and nobody who could, unseen" is "$(tasks "$work/poll")" 0
tries=$(asked "$work/poll" F_SETLK)
check "F_SETLK is what they ask ($tries times)" test "$tries" -ge 24
most=$(most_tries "$work/poll")
check "20 times a second at most ($most seen)" test "$most" -le 20 -a "$most" -ge 2

traced "$work/bare" "$crowd" test_try_rate
check "pollers with and without hints wait in vain for 3 s, patient and not" is "$status" 0
check "no F_SETLKW" is "$(asked "$work/bare" F_SETLKW)" 0
check "and nobody who could, unseen" is "$(tasks "$work/bare")" 0
most=$(most_tries "$work/bare")
check "20 tries a second at most ($most seen)" test "$most" -le 20 -a "$most" -ge 2

TMPDIR=/dev/shm traced "$work/block" "$crowd" test_auto
check "8 waiters on tmpfs get through" is "$status" 0
waits=$(tasks "$work/block")
check "each by a task in the kernel's queue ($waits)" test "$waits" -ge 8
end
