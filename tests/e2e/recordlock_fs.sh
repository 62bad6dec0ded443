#!/bin/bash
# The record lock's crowds, deaths and foreign closes on every local file system that can be mounted here: tmpfs, ext4,
# overlayfs, and xfs and btrfs where their mkfs is installed. Each in a mount namespace of its own, which takes the mount
# and the loop device with it whatever happens. RUNS=N: runs of each size (default 1); FULL=1: all tests, not only those that
# the file system can matter to.
# shellcheck disable=SC2016 # what stands in quotes is expanded in the namespace
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
unset BERTH_RECORDLOCK
export RUNS=${RUNS-1}
mounted=0

parts() { # on the file system at TMPDIR
	local bin=$BERTH_BUILD/bin/test_race_recordlock_
	if [ -n "${FULL-}" ]; then
		"${bin}crowd" && "${bin}fate" && "${bin}others"
	else
		"${bin}crowd" 'test_*ers' && "${bin}crowd" test_mixed && "${bin}crowd" test_way &&
			"${bin}fate" 'test_death_*' && "${bin}others" 'test_foreign_close_*'
	fi
}
export -f parts

# on NAME CLASS SCRIPT: runs the parts where SCRIPT mounts, at $at. The class is what berth must take it for.
on() {
	local name=$1 class=$2 log=$work/$1.log
	mkdir "$work/$name"
	at=$work/$name unshare -m --propagation private bash -c '
		mkdir -p "$at/fs" && { '"$3"'; } >&2 2>"$at/why" || exit 78
		TMPDIR=$at/fs parts' >"$log" 2>&1 </dev/null
	status=$?
	if [ "$status" = 78 ] || [ ! -s "$log" ]; then
		echo "skip  $name can't be mounted here: $(cat "$work/$name/why" "$log" 2>/dev/null | tail -n 1)"
		return
	fi
	mounted=$((mounted + 1))
	sed -n "s/^[a-z]*: .* waiters.*/      $name &/p" "$log"
	check "$name is taken for a file system of class $class" grep -qx "the file system's class is $class" "$log"
	check "$name: all get through, one at a time, whoever dies" test "$status" = 0
	[ "$status" = 0 ] || cat "$log"
}
disk() { # MKFS MIB: the script that mounts a new one
	echo "truncate -s $2M \"\$at/disk\" && $1 \"\$at/disk\" && mount -o loop \"\$at/disk\" \"\$at/fs\""
}

on tmpfs local 'mount -t tmpfs -o size=16m berth "$at/fs"'
on overlay overlay 'mount -t tmpfs -o size=16m berth "$at/fs" &&
	mkdir "$at/fs/lower" "$at/fs/upper" "$at/fs/work" "$at/fs/top" &&
	mount -t overlay -o "lowerdir=$at/fs/lower,upperdir=$at/fs/upper,workdir=$at/fs/work" berth "$at/fs/top" &&
	mount --move "$at/fs/top" "$at/fs"'
PATH=$PATH:/usr/sbin:/sbin
if command -v mkfs.ext4 >/dev/null; then on ext4 local "$(disk 'mkfs.ext4 -q -F' 32)"; else echo "skip  ext4: no mkfs.ext4"; fi
if command -v mkfs.xfs >/dev/null; then on xfs local "$(disk 'mkfs.xfs -q' 400)"; else echo "skip  xfs: no mkfs.xfs"; fi
if command -v mkfs.btrfs >/dev/null; then on btrfs local "$(disk 'mkfs.btrfs -q' 400)"; else echo "skip  btrfs: no mkfs.btrfs"; fi
[ "$mounted" -gt 0 ] || skip "no file system can be mounted here (needs root)"
end
