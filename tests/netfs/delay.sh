#!/bin/bash
# tests/netfs/delay.sh [BUILD-DIRECTORY]: the reason why the library never waits in the kernel on NFS, reproduced: 16
# waiters behind an owner of the same host, in bare F_SETLKW, by bare tries (F_SETLK every 10 ms), and through the
# library; when the first and the last got the lock after the owner's death (SIGKILL) and after a plain unlock.
# Not a test: it takes two to three minutes and prints a table (Markdown). Needs what nfs.sh needs.
here=$(cd "$(dirname "$0")" && pwd)
if [ "${UML_INSIDE-}" != yes ]; then
	BERTH_SOURCE=$(cd "$here/../.." && pwd)
	BERTH_BUILD=$(cd "${1:-$BERTH_SOURCE/build/dev}" && pwd) || exit 2
	# shellcheck source=uml.sh
	. "$here/uml.sh"
	boot_uml "$here/delay.sh" 900
	exit
fi
out=/run/crowd
value() { sed -n "s/^$1	//p" $out; }
cell() { # first / last, in ms; who isn't through after a minute isn't waited for
	local slow
	slow=$(value slow)
	printf ' %s / %s |' "$(value first_ms)" "$([ "$slow" = 0 ] && value last_ms || echo "> 60000 ($slow of 16)")"
}
echo "| NFS | waiting by | after the owner's death: first / last, ms | after an unlock: first / last, ms |"
echo "|---|---|---|---|"
for version in 4.0 4.1 4.2; do
	for way in setlkw setlk auto; do
		case $way in
		setlkw) name="F_SETLKW" ;;
		setlk) name="F_SETLK every 10 ms" ;;
		auto) name="libberth" ;;
		esac
		printf '| %s | %s |' $version "$name"
		for event in kill give; do
			"$BERTH_BUILD/bin/netfs_crowd" "/run/$version/$way-$event" --way $way --event $event --settle-ms 2000 \
				--timeout-ms 90000 >$out 2>/dev/null
			cell
		done
		echo
	done
done
