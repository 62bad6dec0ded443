#!/bin/bash
# Files that are none of our regions where a share's region belongs: berth run starts nothing there, a program
# that comes with the preload gets no GPU and lives on, ps and check show the other shares; the file stays as it was.
# (The whole list of such files, below the command line: tests/unit/region/test_foreign.c.)
# shellcheck source=../e2e/lib.sh
. "$(dirname "$0")/../e2e/lib.sh"
export BERTH_SIM_GPUS=1x8G BERTH_SIM_CONTEXT_BYTES=0
shares=$BERTH_STATE_DIR/shares

# bytes AT NUMBER FILE: a little-endian 32-bit number
bytes() {
	local n=$2
	# shellcheck disable=SC2059 # the format is made of the number
	printf "$(printf '\\x%02x\\x%02x\\x%02x\\x%02x' $((n & 255)) $((n >> 8 & 255)) $((n >> 16 & 255)) $((n >> 24 & 255)))" |
		dd of="$3" bs=1 seek="$1" conv=notrunc status=none
}
# What can be told of a file without opening it for more than reading.
look() {
	stat -c '%F %a %u %g %s %b %h %Y %y %z %i' "$1"
	[ ! -f "$1" ] || [ -L "$1" ] || head -c 4000000 "$1" | cksum
}
"$berth" run -q --sim --name good -m 1G -- /bin/true
place() { # NAME: an empty share directory; sets $file
	mkdir -p "$shares/$1"
	chmod 700 "$shares/$1"
	file=$shares/$1/region.cache
}

refused() { # NAME WORDS
	local before
	before=$(look "$file")
	run timeout 60 "$berth" run --sim --name "$1" -m 1G -- /bin/sh -c "echo started >'$work/started'"
	check "$1: berth run: 125" is "$status" 125
	check "$1: says what it is" has "$err" "$2"
	check "$1: names it" has "$err" "$file"
	case $err in *"remove it"* | *"choose another"* | *"name the region itself"*) pass "$1: and what to do" ;; *) fail "$1: what to do? $err" ;; esac
	check "$1: the program wasn't started" test ! -e "$work/started"
	# By the preload alone: an error from the driver's calls, no signal, nothing granted.
	printf 'alloc q 1M\nquit\n' >"$work/lines"
	timeout 60 env LD_PRELOAD="$BERTH_BUILD/lib/libberth-cuda.so" LD_LIBRARY_PATH="$BERTH_BUILD/lib/sim" \
		BERTH_REGION="$file" CUDA_DEVICE_MEMORY_LIMIT=1G "$client" <"$work/lines" >"$work/out" 2>"$work/err"
	check "$1: a preloaded program ends by itself" is "$?" 1
	check "$1: cuInit fails" has "$(cat "$work/out")" "cuInit error"
	check "$1: and it is told why, once" is "$(grep -c "$2" "$work/err")" 1
	run timeout 60 "$berth" ps --all --json
	check "$1: ps shows the others" is "$(printf '%s' "$out" | jq -r '[.[].name] | join(" ")')" good
	check "$1: and says what it can't show" has "$err" "$2"
	run timeout 60 "$berth" check good
	check "$1: check isn't disturbed" is "$out" "good: whole"
	check "$1: it is as it was" is "$(look "$file")" "$before"
	rm -rf "${shares:?}/$1"
}

place hami
bytes 0 19920718 "$file"; bytes 4 1 "$file"; bytes 8 2 "$file"
truncate -s 2008952 "$file"
refused hami "another implementation"

place old
bytes 0 19920718 "$file"; bytes 4 0 "$file"; bytes 8 1 "$file"
truncate -s 100000 "$file"
refused old "older format"

place next
cp "$shares/good/region.cache" "$file"
bytes 8 3 "$file"
refused next "format 1.3"

place longer
cp "$shares/good/region.cache" "$file"
truncate -s 1T "$file" || truncate -s 1G "$file"
refused longer "made longer"

place shorter
cp "$shares/good/region.cache" "$file"
truncate -s -1 "$file"
refused shorter "cut short"

place mad
cp "$shares/good/region.cache" "$file"
bytes 56 17 "$file"
refused mad "claims 17 GPUs"

place pipe
mkfifo "$file"
refused pipe "is a FIFO"

place dangling
ln -s /nowhere "$file"
refused dangling "symbolic link"

run "$berth" run -q --sim --name good -m 1G -- /bin/true
check "the good one is good all the while" is "$status" 0
end
