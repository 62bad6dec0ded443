#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What the preloaded library shows and needs: it must load in old containers, must be taken for
# libc's dlsym, and may show nothing but the driver's names.
#
# usage: test_exports.sh LIBRARY
set -eu

library=$1
fail=0

complain() {
	echo "$library: $*" >&2
	fail=1
}

command -v objdump >/dev/null || { echo "no objdump: skipped"; exit 77; }
symbols=$(objdump -T "$library")

newer=$(printf '%s\n' "$symbols" | awk '
	match($0, /GLIBC_[0-9]+\.[0-9]+/) {
		split(substr($0, RSTART + 6, RLENGTH - 6), version, ".")
		if (version[1] > 2 || version[2] > 28)
			print $NF, substr($0, RSTART, RLENGTH)
	}')
[ -z "$newer" ] || complain "needs more than GLIBC_2.28: $newer"

private=$(printf '%s\n' "$symbols" | grep GLIBC_PRIVATE || true)
[ -z "$private" ] || complain "needs what libc keeps to itself: $private"

shown=$(printf '%s\n' "$symbols" | awk '$0 !~ /\*UND\*/ && NF >= 6 && $1 ~ /^[0-9a-f]+$/ { print $NF }')
foreign=$(printf '%s\n' "$shown" | grep -Ev '^(cu[A-Z][A-Za-z0-9_]*|nvml[A-Z][A-Za-z0-9_]*|dlsym|dlvsym)$' || true)
[ -z "$foreign" ] || complain "shows $foreign"
for name in dlsym dlvsym cuGetProcAddress cuGetProcAddress_v2; do
	printf '%s\n' "$shown" | grep -qx "$name" || complain "does not show $name"
done

# A named version would keep programs that ask for dlsym@GLIBC_2.34 from finding ours.
if objdump -p "$library" | grep -q '^Version definitions:'; then
	complain "has named versions"
fi

needed=$(objdump -p "$library" | awk '$1 == "NEEDED" && $2 != "libc.so.6" && $2 !~ /^ld-linux/ { print $2 }')
[ -z "$needed" ] || complain "needs $needed"

[ "$fail" -eq 0 ] && echo "$(printf '%s\n' "$shown" | wc -l) symbols shown, nothing above GLIBC_2.28"
exit "$fail"
