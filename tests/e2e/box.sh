# shellcheck shell=bash
# For scripts that need a container's view: $box is a root directory of its own with all of the host's directories in
# it, an /etc that can be written, room for /overrideEnv, and the simulated driver where a set-user-ID program finds it.
# Sourced first (it starts the script again in a mount namespace of its own), then lib.sh's names are there, too.
if [ -z "${BOXED-}" ] && unshare -m --propagation private true 2>/dev/null; then
	BOXED=yes exec unshare -m --propagation private bash "$0" "$@"
fi
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
[ -n "${BOXED-}" ] || skip "no mount namespace can be made here (needs root)"

# Not in $work, which is removed with all that is in it: the host's directories are in here.
box=$(mktemp -d "${TMPDIR:-/tmp}/berth-box.XXXXXX")
library=$BERTH_BUILD/lib/libberth-cuda.so
mount -t tmpfs -o mode=755 box "$box" || { rmdir "$box"; skip "no tmpfs can be mounted here"; }
for name in /* /.[!.]*; do
	name=${name#/}
	if [ -L "/$name" ]; then
		cp -a "/$name" "$box/"
	elif [ "$name" = etc ]; then
		cp -a /etc "$box/"
	elif [ -d "/$name" ] && [ ! -e "$box/$name" ]; then
		mkdir "$box/$name"
		mount --rbind "/$name" "$box/$name" 2>/dev/null || rmdir "$box/$name"
	fi
done
echo "$BERTH_BUILD/lib/sim" >"$box/etc/ld.so.conf"
rm -f "$box/etc/ld.so.preload"
chroot "$box" /sbin/ldconfig 2>/dev/null
trap 'status=$?; umount -l "$box" && rmdir "$box"; (exit "$status"); finish' EXIT

# boxed WHAT...: `env WHAT...` in the box with the library preloaded and no variable that names a limit.
boxed() {
	chroot "$box" env -i PATH="$PATH" LD_LIBRARY_PATH="$BERTH_BUILD/lib/sim" BERTH_STATE_DIR="$BERTH_STATE_DIR" \
		BERTH_SIM_GPUS=1x8G BERTH_SIM_CONTEXT_BYTES=0 LD_PRELOAD="$library" "$@"
}
# word FILE OFFSET: eight bytes of a region, as a number
word() { od -An -t u8 -j "$2" -N 8 "$1" | tr -d ' '; }
memory_limit() { word "$1" 1600; }
compute_limit() { word "$1" 1728; }
