#!/bin/bash
# libberth as a user has it: installed, found by pkg-config, its man page's example compiled and run.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
command -v pkg-config >/dev/null || skip "no pkg-config here"
cc=$(command -v cc || command -v gcc || command -v clang) || skip "no C compiler here"
ldd "$BERTH_BUILD/lib/libberth.so.0" | grep -qE 'lib[at]san' && skip "built with a sanitizer"

# The man page shows the very program.
sed -n '/^\.Bd -literal/,/^\.Ed/p' "$BERTH_SOURCE/man/berth_recordlock.3" |
	sed '1d;$d; s/^\\&//; s/\\e/\\/g' >"$work/example.c"
tail -n +2 "$BERTH_SOURCE/examples/recordlock.c" >"$work/expected.c" # without the licence
check "the man page has the example" cmp "$work/example.c" "$work/expected.c"

run cmake --install "$BERTH_BUILD" --prefix "$work/prefix"
check "it installs" is "$status" 0
pc=$(find "$work/prefix" -name berth.pc)
check "with a file for pkg-config" test -s "$pc"
export PKG_CONFIG_PATH=${pc%/*}
prefix=--define-variable=prefix=$work/prefix
libs=$(pkg-config "$prefix" --variable=libdir berth)
check "which knows the version" is "$(pkg-config --modversion berth)" "$("$BERTH_BUILD/bin/berth" version | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p')"
check "the man page is in place" test -s "$work/prefix/share/man/man3/berth_recordlock.3"
# shellcheck disable=SC2046 # a list of words
run "$cc" -std=c11 -Wall -Werror "$work/example.c" -o "$work/example" $(pkg-config "$prefix" --cflags --libs berth)
check "the example compiles against what is installed" is "$status" 0
export LD_LIBRARY_PATH=$libs
check "and asks for the library by its soname" has "$(ldd "$work/example")" "libberth.so.0 => $libs"

for _ in 1 2 3 4; do
	for _ in $(seq 25); do "$work/example" "$work/lock" "$work/number" || echo "failed"; done &
done >"$work/runs" 2>&1
wait
check "a hundred of them, four at once, fail at nothing" is "$(cat "$work/runs")" ""
check "and lose no step" is "$(cat "$work/number")" 100
check "the lock file is made for its owner" is "$(stat -c %a "$work/lock")" 600

# Held by somebody else.
exec 9<>"$work/lock"
python3 -c 'import fcntl, sys, time
fcntl.lockf(9, fcntl.LOCK_EX, 1, 1 << 30)
print("held", flush=True)
time.sleep(60)' >"$work/holder" &
holder=$!
exec 9>&-
until grep -q held "$work/holder"; do kill -0 "$holder" || break; sleep 0.02; done
run "$work/example" "$work/lock" "$work/number"
kill "$holder"
check "behind somebody else it gives up" is "$status" 1
check "and names him" has "$err" "process $holder has it"
run "$work/example" "$work/lock" "$work/number"
check "once he is dead, nothing is in the way" is "$status" 0
end
