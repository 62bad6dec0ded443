#!/bin/bash
# /overrideEnv: a login in a container comes without its variables and has its limits all the same. What can't be
# believed or understood stops the program's use of the GPU with a line that names the file; it never means "no limit".
# shellcheck source=box.sh
. "$(dirname "$0")/box.sh"
M=$((1024 * 1024))
region=$work/region.cache
file=$box/overrideEnv

fresh() { rm -rf "$file" "$region" "$work/other.cache" "$BERTH_STATE_DIR"; }
# total WHAT...: what a program sees of its GPU
total() {
	printf 'info\nquit\n' | boxed "$@" "$client" 2>"$work/err" | sed -n 's/^info [0-9]* //p'
}
plugin() { printf 'CUDA_DEVICE_MEMORY_LIMIT_0=%s\nCUDA_DEVICE_SM_LIMIT=50\nCUDA_DEVICE_MEMORY_SHARED_CACHE=%s\n' "$1" "$region"; }

fresh
plugin 2048m >"$file"
check "no variables, only the file: its limit" is "$(total A=b)" $((2048 * M))
check "in the region that it names" is "$(memory_limit "$region")" $((2048 * M))
check "with its percentage" is "$(compute_limit "$region")" 50
check "and nothing is said" is "$(cat "$work/err")" ""
answer=$(printf 'alloc x 2049M\nalloc y 2048M\nquit\n' | boxed A=b "$client" | tr '\n' ' ')
check "one more is refused, the limit is granted" has "$answer" "x error 2 CUDA_ERROR_OUT_OF_MEMORY y ok"

fresh
plugin 2048m >"$file"
check "the file wins over the environment" is "$(total CUDA_DEVICE_MEMORY_LIMIT_0=512m CUDA_DEVICE_MEMORY_SHARED_CACHE="$work/other.cache")" \
	$((2048 * M))
check "also for the region" test ! -e "$work/other.cache"
check "by another name the environment lifts nothing" is "$(total CUDA_DEVICE_MEMORY_LIMIT=7G BERTH_SHARE=mine)" $((2048 * M))

fresh
printf 'CUDA_DEVICE_MEMORY_LIMIT=1G\n' >"$file"
check "nor by a more exact one" is "$(total CUDA_DEVICE_MEMORY_LIMIT_0=7G)" $((1024 * M))
check "but it lowers" is "$(total CUDA_DEVICE_MEMORY_LIMIT_0=512M BERTH_SHARE=smaller)" $((512 * M))

fresh
check "no file: the environment" is "$(total CUDA_DEVICE_MEMORY_LIMIT_0=512m CUDA_DEVICE_MEMORY_SHARED_CACHE="$work/other.cache")" \
	$((512 * M))

# Who comes first doesn't matter: one with nothing but the region's name, then a login that has the file.
fresh
check "without file and limit the region has none" is "$(total CUDA_DEVICE_MEMORY_SHARED_CACHE="$region")" $((8192 * M))
plugin 1g >"$file"
check "the file's limit holds in a region made without" is "$(total A=b)" $((1024 * M))
rm "$file"
check "and for the next that comes without either" is "$(total CUDA_DEVICE_MEMORY_SHARED_CACHE="$region")" $((1024 * M))

# refused TEXT WHAT...: no GPU, one line with the file's name and TEXT, no region
refused() {
	local text=$1
	shift
	run boxed "${@:-A=b}" "$client" </dev/null
	[ "$status" = 1 ] && has "$out" "cuInit error" && has "$err" "/overrideEnv" && has "$err" "$text" &&
		is "$(wc -l <"$work/err")" 1 && [ ! -e "$region" ]
}
holds() { fresh; printf '%b' "$1" >"$file"; }
limit='CUDA_DEVICE_MEMORY_LIMIT=1G\n'

holds "$limit$(plugin 2048m | sed -n 3p | cut -c 1-40)"
check "a half-written file" refused "line 2: no newline"
holds ''
check "an empty one" refused "gives no memory limit"
check "with the limit in the environment it takes nothing away" is "$(total CUDA_DEVICE_MEMORY_LIMIT=1G)" $((1024 * M))
holds 'CUDA_DEVICE_MEMORY_LIMIT 1G\n'
check "a line that is no assignment" refused "line 1: not NAME=VALUE"
holds "# limits\nCUDA_DEVICE_MEMORY_LIMIT=lots\n"
check "a value that is none" refused 'line 2: CUDA_DEVICE_MEMORY_LIMIT="lots" is not valid: give'
check "also if the environment's is" refused 'line 2' CUDA_DEVICE_MEMORY_LIMIT=1G
holds "${limit}CUDA_DEVICE_MEMORY_LIMIT=2G\n"
check "two values" refused "line 2: CUDA_DEVICE_MEMORY_LIMIT has another value than in line 1"
holds "A=\0\n$limit"
check "a NUL byte" refused "line 1: a NUL byte"
fresh
{ printf 'A='; head -c 1000000 /dev/zero | tr '\0' x; printf '\n%b' "$limit"; } >"$file"
check "a line of a megabyte" refused "too large"
holds "\xef\xbb\xbf$limit"
check "a byte order mark" refused "line 1"
holds "\r\n# CRLF, quotes, blanks\r\n export CUDA_DEVICE_MEMORY_LIMIT = \"1 GiB\" \r\n"
check "CRLF, quotes, blanks and comments are understood" is "$(total A=b)" $((1024 * M))

holds "$limit"
chown 1000 "$file"
check "a file of another user's" refused "belongs to user 1000"
chown 0 "$file"
chmod 666 "$file"
check "one that all may write" refused "chmod go-w"
chmod 600 "$file"
run chroot --userspec=65534:65534 "$box" env -i LD_PRELOAD="$library" LD_LIBRARY_PATH="$BERTH_BUILD/lib/sim" \
	CUDA_DEVICE_MEMORY_LIMIT=1G "$client" </dev/null
check "one that the program may not read" has "$err" "/overrideEnv can't be read: Permission denied"
check "stops it" has "$out" "cuInit error"
mv "$file" "$box/elsewhere"
ln -s /elsewhere "$file"
check "a symbolic link" refused "is a symbolic link"
fresh
mkdir "$file"
check "a directory, as container engines make for what isn't there" refused "is not a regular file"
run boxed /bin/echo hello
check "a program that uses no GPU is left alone" is "$status$out$err" 0hello

# A share of `berth run` inside of such a container.
fresh
plugin 2048m >"$file"
run chroot "$box" env -i PATH="$PATH" BERTH_STATE_DIR="$BERTH_STATE_DIR" BERTH_SIM_GPUS=1x8G \
	"$berth" run -q --sim -m 8G -- "$client" </dev/null
check "berth run beside the container's region is refused" has "$err" "start it without \`berth run\`"
check "so there is no GPU" has "$out" "cuInit error"
holds "$limit"
answer=$(printf 'info\nquit\n' | chroot "$box" env -i PATH="$PATH" BERTH_STATE_DIR="$BERTH_STATE_DIR" BERTH_SIM_GPUS=1x8G \
	BERTH_SIM_CONTEXT_BYTES=0 "$berth" run -q --sim -m 8G -- "$client" | tail -n 1)
check "where the file names none, its limit holds in the share" is "$answer" "info $((1024 * M)) $((1024 * M))"
answer=$(printf 'info\nquit\n' | chroot "$box" env -i PATH="$PATH" BERTH_STATE_DIR="$BERTH_STATE_DIR" BERTH_SIM_GPUS=1x8G \
	BERTH_SIM_CONTEXT_BYTES=0 "$berth" run -q --sim -m 512M -- "$client" | tail -n 1)
check "and a smaller one, too" is "$answer" "info $((512 * M)) $((512 * M))"

# A program with more rights than its caller, as sshd's or cron's helpers: preloaded by /etc/ld.so.preload.
fresh
cp "$client" "$box/client"
chmod 4755 "$box/client"
echo "$library" >"$box/etc/ld.so.preload"
secure() { # WHAT...: as another user
	chroot --userspec=65534:65534 "$box" env -i BERTH_STATE_DIR="$BERTH_STATE_DIR" BERTH_SIM_GPUS=1x8G \
		BERTH_SIM_CONTEXT_BYTES=0 "$@" /client 2>"$work/err" < <(printf 'info\nquit\n') | tail -n 1
}
check "set-user-ID, named by its caller: a region is not made" has \
	"$(secure CUDA_DEVICE_MEMORY_SHARED_CACHE="$region" CUDA_DEVICE_MEMORY_LIMIT=1G)" "cuInit error"
check "it says so" has "$(cat "$work/err")" "$region"
plugin 2048m >"$file"
check "set-user-ID, named by the file: it is" is "$(secure CUDA_DEVICE_MEMORY_SHARED_CACHE="$work/other.cache")" \
	"info $((2048 * M)) $((2048 * M))"
check "there" is "$(memory_limit "$region")" $((2048 * M))
end
