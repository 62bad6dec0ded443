#!/bin/bash
# The record lock on NFSv4.0, 4.1 and 4.2, in a user-mode-linux machine that serves them to itself (uml.sh): the
# owner and 16 waiters are programs of one host. Run by hand, delay.sh shows what bare F_SETLKW does there.
here=$(cd "$(dirname "$0")" && pwd)
if [ "${UML_INSIDE-}" != yes ]; then
	# shellcheck source=uml.sh
	. "$here/uml.sh"
	boot_uml "$here/nfs.sh" 400
	exit
fi
export TMPDIR=/run
# shellcheck source=lib.sh
. "$here/lib.sh"

# asked VERSION OPERATION: how many of them the client has sent to the server
asked() {
	awk -v at="/run/$1" -v op="$2:" '$1 == "device" { in_it = $5 == at } in_it && $1 == op { print $2 }' \
		/proc/self/mountstats
}

for version in 4.0 4.1 4.2; do
	m=/run/$version
	check "NFS $version is mounted" is "$(stat -f -c %t "$m" 2>&1)" 6969
	check "NFS $version: and is that version" grep -q "$m nfs4 .*vers=$version," /proc/mounts
	through "NFS $version" "$m/lock" kill
	through "NFS $version" "$m/lock" give
	killed "NFS $version" "$m/lock"
	before=$(asked "$version" LOCK)
	deadline "NFS $version" "$m/lock"
	# the client's own count, which knows nothing of ours: 16 waiters, 4 s each, 20 a second
	check "NFS $version: the server is asked for no more than that" at_most $(($(asked "$version" LOCK) - before)) 1300
done

# The server stops: a try fails in the client while the owner is of the same host, so deadlines hold.
crowd /run/4.2/lock --timeout-ms 3000 --settle-ms 0 --event 'echo 0 >/proc/fs/nfsd/threads' --patience-ms 8000 \
	--then 'echo >/run/serve_again'
printf 'figure\tstopped server\t%s of 16 not back at their deadline\n' "$(value slow_at_first)"
check "stopped server: nobody comes in" told entered 0
check "stopped server: nobody is left that can't be killed" told unkillable 0
check "stopped server: when it is back, so are the waiters" told slow 0
end
