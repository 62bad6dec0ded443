# shellcheck shell=bash
# boot_uml JOB SECONDS: a user-mode-linux machine (an ordinary program of this user) with NFS 4.0, 4.1 and 4.2 served
# to itself, mounted on /run/4.N; JOB, a bash script, runs in it as root, with BERTH_BUILD, BERTH_SOURCE and
# UML_INSIDE=yes. Sees this host's files, read-only; talks to nobody but itself. Prints what JOB prints; the status is
# JOB's, 77 (and a word) where no such machine can be had.
#
# All of its processes are in one pid namespace where that is allowed, and go with the first.
boot_uml() {
	local job=$1 seconds=$2 fence=() scratch path status
	for path in "$job" "$BERTH_BUILD" "$BERTH_SOURCE"; do
		case $path in
		*[[:space:]]* | /run/* | /proc/* | /sys/* | /dev/*)
			echo "skip  $path: can't be seen from user-mode-linux"
			return 77 ;;
		esac
	done
	command -v linux.uml >/dev/null || { echo "skip  no user-mode-linux here (Debian's package of that name)"; return 77; }
	/bin/busybox insmod --help >/dev/null 2>&1 || { echo "skip  no busybox with insmod (package busybox-static)"; return 77; }
	unshare --pid --fork true 2>/dev/null && fence=(unshare --pid --fork --kill-child)
	scratch=$(mktemp -d "${TMPDIR:-/tmp}/berth-uml.XXXXXX")
	# What its kernel doesn't know on the command line becomes init's environment.
	LD_PRELOAD=$BERTH_BUILD/lib/uml_xstate.so timeout -k 5 "$seconds" ${fence[@]+"${fence[@]}"} \
		linux.uml root=none rootfstype=hostfs rootflags=/ ro mem=512M con=null con0=fd:0,fd:1 quiet \
		uml_dir="$scratch/" init="$BERTH_SOURCE/tests/netfs/uml-init" UML_JOB="$job" UML_INSIDE=yes \
		BERTH_BUILD="$BERTH_BUILD" BERTH_SOURCE="$BERTH_SOURCE" </dev/null 2>"$scratch/err" |
		tr -d '\r' | tee "$scratch/out" | grep -v -e '^uml: ' -e '^reboot: ' -e '^mmapper_init' -e '^SELinux: ' \
		-e '^Failed to initialize ubd'
	if ! grep -q '^uml: up' "$scratch/out"; then
		echo "skip  user-mode-linux doesn't come up here:"
		tail -n 5 "$scratch/out" "$scratch/err"
		rm -rf "$scratch"
		return 77
	fi
	status=$(sed -n 's/^uml: done //p' "$scratch/out")
	[ -n "$status" ] || { echo "FAIL  the machine ended before its job did"; cat "$scratch/err"; status=1; }
	rm -rf "$scratch"
	return "$status"
}
