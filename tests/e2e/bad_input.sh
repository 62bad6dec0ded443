#!/bin/bash
# What people do wrong, and what they are told: a clear error that names the thing and the remedy, the
# documented exit status, and never a program that runs without its limit.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

refused() { # STATUS TEXT WHAT...: berth run refuses with that status and says TEXT
	local want=$1 text=$2
	shift 2
	run "$berth" run --sim "$@"
	is "$status" "$want" && has "$err" "$text" && [ -z "$out" ]
}

refused_real() {
	run "$berth" run --real -m 1G -- /bin/echo ran
	is "$status" 125 && has "$err" "$1" && [ -z "$out" ]
}

check "unknown option" refused 125 "unknown option --memmory" --memmory 1G -- /bin/echo ran
check "a missing argument" refused 125 "an argument is missing after" -m
for size in "" abc -1 50% 1e 99999999999999G 1G2 0; do
	check "size '$size' is refused by name" refused 125 "--memory $size: not" -m "$size" -- /bin/echo ran
done
for percent in 0 101 -5 x ""; do
	check "percent '$percent' is refused by name" refused 125 "--compute $percent: not" -c "$percent" -- /bin/echo ran
done
check "a bad share name" refused 125 "can't name a share" --name ../../etc -- /bin/echo ran
check "no program" refused 125 "which program?" -m 1G
check "a program that isn't there" refused 127 "no such program" -m 1G -- no-such-program-here
check "a path that isn't there" refused 127 "/nonexistent/x: no such program" -m 1G -- /nonexistent/x
echo hello >"$work/plain"
check "a file that isn't executable" refused 126 "is not an executable file" -m 1G -- "$work/plain"
check "a GPU that isn't there" refused 125 "there is no such GPU; there are 0 (GPU-" --gpu 7 -m 1G -- /bin/echo ran
check "--sim and --real" refused 125 "exclude each other" --real -m 1G -- /bin/echo ran

LD_LIBRARY_PATH=$BERTH_BUILD/lib/sim check "--real inside a simulated run" refused_real "leads to the simulated one"

export BERTH_LIBDIR=/nonexistent
check "a missing library" refused 125 "libberth-cuda.so is not there" -m 1G -- /bin/echo ran
unset BERTH_LIBDIR

mkdir "$work/with blank" && cp -r "$BERTH_BUILD/lib/." "$work/with blank/"
BERTH_LIBDIR="$work/with blank" check "a path that LD_PRELOAD can't carry" refused 125 "can't carry a path with a blank" -m 1G -- /bin/echo ran

: >"$work/file"
BERTH_STATE_DIR=$work/file/state check "a state directory that can't be made" refused 125 "$work/file" -m 1G -- /bin/echo ran
BERTH_STATE_DIR=relative check "a state directory that isn't absolute" refused 125 "BERTH_STATE_DIR" -m 1G -- /bin/echo ran

# Foreign and half-written region files.
dir=$BERTH_STATE_DIR/shares
mkdir -p "$dir/junk" "$dir/short" "$dir/zeros" "$dir/link" "$dir/dir/region.cache"
chmod 700 "$BERTH_STATE_DIR" "$dir" "$dir"/*
head -c 3000000 /dev/urandom >"$dir/junk/region.cache"
head -c 100 /dev/zero >"$dir/short/region.cache"
head -c 4000000 /dev/zero >"$dir/zeros/region.cache"
ln -s "$dir/zeros/region.cache" "$dir/link/region.cache"
for name in junk short zeros link dir; do
	check "region file: $name" refused 125 "$dir/$name/region.cache" -m 1G --name "$name" -- /bin/echo ran
	run "$berth" ps
	check "berth ps names it and shows the others: $name" has "$err" "$name"
done
check "the foreign files were left as they are" is "$(stat -c %s "$dir/junk/region.cache")" 3000000
rm -rf "$dir"

# A limit above the card: said, and the card's own size holds.
export BERTH_SIM_GPUS=1x8G
run "$berth" run --sim -m 9G -- "$client" </dev/null
check "a limit above the card is told" has "$err" "9 GiB is more than GPU 0"
check "and the program runs" is "$status" 0
unset BERTH_SIM_GPUS

# Programs that ignore a preload.
cat >"$work/hello.c" <<'C'
#include <stdio.h>
int main(void) { puts("ran"); return 0; }
C
if gcc -static -o "$work/static" "$work/hello.c" 2>/dev/null; then
	check "a statically linked program" refused 125 "is statically linked" -m 1G -- "$work/static"
	printf '#!%s\n' "$work/static" >"$work/script" && chmod 755 "$work/script"
	check "a script for a statically linked interpreter" refused 125 "is statically linked" -m 1G -- "$work/script"
else
	echo "skip  static programs: no static libc"
fi
if [ "$(id -u)" = 0 ]; then
	gcc -o "$work/setuid" "$work/hello.c" && chmod 4755 "$work/setuid" && chmod 755 "$work"
	mkdir "$work/user" && chown 65534:65534 "$work/user"
	run env BERTH_STATE_DIR="$work/user/state" setpriv --reuid 65534 --regid 65534 --clear-groups \
		"$berth" run --sim -m 1G -- "$work/setuid"
	check "a set-user-ID program" is "$status" 125
	check "is told why" has "$err" "runs with other rights than its caller's"
	check "and did not run" is "$out" ""
	run "$berth" run --sim -q -m 1G -- "$work/setuid"
	check "its owner gains nothing by it, so it runs" is "$out" "ran"
fi
printf '#!/bin/sh\necho ran\n' >"$work/shell" && chmod 755 "$work/shell"
run "$berth" run --sim -q -m 1G -- "$work/shell"
check "a script runs" is "$out" "ran"
printf 'echo ran\n' >"$work/noshebang" && chmod 755 "$work/noshebang"
run "$berth" run --sim -q -m 1G -- "$work/noshebang"
check "a script without #! runs, as in a shell" is "$out" "ran"
printf '\177ELF\002\001\001garbage' >"$work/broken" && chmod 755 "$work/broken"
check "a broken ELF file" refused 125 "$work/broken" -m 1G -- "$work/broken"

# AddressSanitizer's runtime must come first in the preload.
if gcc -fsanitize=address -o "$work/asan" "$work/hello.c" 2>/dev/null; then
	run "$berth" run --sim -q -m 1G -- "$work/asan"
	check "a program built with AddressSanitizer runs" is "$out" "ran"
	check "and has nothing to complain of" is "$err" ""
fi

# A program that brings a second driver gets past the limit through it: that is said, unless it has none.
cat >"$work/two.c" <<'C'
#include <dlfcn.h>
int main(int argc, char **argv)
{
	void *first = dlopen("libcuda.so.1", RTLD_NOW);
	int (*init)(unsigned) = (int (*)(unsigned))dlsym(first, "cuInit");
	init(0);
	return argc > 1 && dlsym(dlopen(argv[1], RTLD_NOW | RTLD_LOCAL), "cuMemAlloc_v2") ? 0 : 1;
}
C
cp -L "$BERTH_BUILD/lib/sim/libcuda.so.1" "$work/second.so"
gcc -o "$work/two" "$work/two.c" && run "$berth" run --sim -q -m 1G -- "$work/two" "$work/second.so"
check "what can't be limited is said" has "$err" "calls through it are not limited"
run env LD_PRELOAD="$BERTH_BUILD/lib/libberth-cuda.so" LD_LIBRARY_PATH="$BERTH_BUILD/lib/sim" "$work/two" "$work/second.so"
check "but not to a program without a limit" is "$err" ""

run "$berth" frobnicate
check "an unknown command" has "$err" "'frobnicate' is not a command"
check "has the status of a wrong command line" is "$status" 2
run "$berth" ps extra
check "berth ps takes no operand" is "$status" 2
run "$berth" run --help
check "--help is an answer, not an error" is "$status" 0
check "and names the options" has "$out" "--memory SIZE"
if [ -w /dev/full ]; then
	"$berth" help >/dev/full 2>"$work/err"
	check "a full disk behind the pipe is a failure" is $? 1
fi
end
