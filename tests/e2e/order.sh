#!/bin/bash
# Who comes first, with which environment, doesn't decide whether there is a limit: three processes (1 GiB, 2 GiB, none
# named) in each of their six orders, started by exec, by fork, and set-user-ID. After each start the limit in force
# is the smallest that was given so far, whoever has just come is held to it, and is told once if it asked for another.
# shellcheck source=box.sh
. "$(dirname "$0")/box.sh"
M=$((1024 * 1024))
region=$work/region.cache
forker=$BERTH_BUILD/bin/fork_client
export BERTH_LOG_LEVEL=warning

# start NAME COMMAND...: with pipes
start() {
	local name=$1 fd_to fd_from
	shift
	rm -f "$work/$name.in" "$work/$name.out"
	mkfifo "$work/$name.in" "$work/$name.out"
	"$@" <"$work/$name.in" >"$work/$name.out" 2>"$work/$name.err" &
	actor_pid[$name]=$!
	children+=($!)
	# shellcheck disable=SC2093 # no program: it opens descriptors
	exec {fd_to}>"$work/$name.in" {fd_from}<"$work/$name.out"
	actor_to[$name]=$fd_to actor_from[$name]=$fd_from
}
stop() {
	local name fd
	for name; do
		fd=${actor_to[$name]}
		# those that came later hold this end open, too
		echo quit >&"$fd"
		exec {fd}>&-
		fd=${actor_from[$name]}
		exec {fd}<&-
		wait "${actor_pid[$name]}" 2>/dev/null
	done
}

# given LIMIT: keeps $smallest of what was given so far
given() {
	[ "$1" = - ] && return
	if [ "$smallest" = 0 ] || [ "$smallest" -gt "$((${1%M} * M))" ]; then smallest=$((${1%M} * M)); fi
}
# held WHAT LIMIT NTH ERR TOTAL RESULT: after this start
held() {
	local seen=$((smallest ? smallest : 8192 * M)) told=0
	[ "$3" = 1 ] || [ "$smallest" = 0 ] || told=1
	if is "$(memory_limit "$region")" "$smallest" && is "$5" "$seen" && is "$6" 2 &&
		is "$(grep -c 'are in force' "$4")" "$told"; then return; fi
	echo "      $1, after $2"
	wrong=$((wrong + 1))
}
ended_at_zero() { [ "$(BERTH_LOG_LEVEL=error boxed CUDA_DEVICE_MEMORY_SHARED_CACHE="$region" "$client" <<<info | sed -n 's/^info //p')" = "$1 $1" ]; }

# One process after another, each a program of its own.
by_exec() { # COMMAND PROGRAM LIMIT...
	local command=$1 program=$2 n=0 limit total result
	shift 2
	for limit; do
		n=$((n + 1))
		given "$limit"
		if [ "$limit" = - ]; then
			start "p$n" "$command" "$program"
		else
			start "p$n" "$command" CUDA_DEVICE_MEMORY_LIMIT="$limit" "$program"
		fi
		read -r -t 60 -u "${actor_from[p$n]}" answer
		case $answer in ready*) ;; *) echo "      $command: $answer $(cat "$work/p$n.err")" ;; esac
		for _ in 1 2; do tell "p$n" info; done
		total=${answer##* }
		tell "p$n" alloc x $((total + 1))
		result=${answer#x error }
		held "$command $*" "$n" "$((n + later))" "$work/p$n.err" "$total" "${result%% *}"
	done
	# those that came first are held to it, too
	tell p1 info
	is "$answer" "info $smallest $smallest" || wrong=$((wrong + 1))
	tell p1 alloc x $((smallest + 1))
	is "$answer" "x error 2 CUDA_ERROR_OUT_OF_MEMORY" || wrong=$((wrong + 1))
	stop p1 p2 p3
}
plain() { exec chroot "$box" env -i LD_LIBRARY_PATH="$BERTH_BUILD/lib/sim" LD_PRELOAD="$library" BERTH_LOG_LEVEL=warning \
	BERTH_STATE_DIR="$BERTH_STATE_DIR" BERTH_SIM_GPUS=1x8G BERTH_SIM_CONTEXT_BYTES=0 \
	CUDA_DEVICE_MEMORY_SHARED_CACHE="$region" "$@"; }
secure() { exec chroot --userspec=65534:65534 "$box" env -i BERTH_LOG_LEVEL=warning BERTH_STATE_DIR="$BERTH_STATE_DIR" \
	BERTH_SIM_GPUS=1x8G BERTH_SIM_CONTEXT_BYTES=0 CUDA_DEVICE_MEMORY_SHARED_CACHE="$region" "$@"; }

by_fork() { # LIMIT...
	local n=0 limit pid total result
	start forks plain "$forker" "$@"
	for limit; do
		n=$((n + 1))
		given "$limit"
		tell forks next
		read -r pid total result <<<"$answer"
		grep -F "berth[$pid]" "$work/forks.err" >"$work/one.err"
		held "by fork $*" "$n" "$n" "$work/one.err" "$total" "$result"
	done
	stop forks
}

fresh() { rm -rf "$region" "$BERTH_STATE_DIR"; smallest=0 wrong=0 later=0; }
cp "$client" "$box/client"
chmod 4755 "$box/client"
orders="1024M:2048M:- 1024M:-:2048M 2048M:1024M:- 2048M:-:1024M -:1024M:2048M -:2048M:1024M"
for order in $orders; do
	IFS=: read -r first second third <<<"$order"
	fresh
	by_exec plain "$client" "$first" "$second" "$third"
	check "by exec: $order" is "$wrong" 0
	check "its end gives all back" ended_at_zero "$smallest"
	fresh
	by_fork "$first" "$second" "$third"
	check "by fork: $order" is "$wrong" 0
	# A set-user-ID program makes no region that its caller names: one that knows no limit has made it.
	fresh
	boxed CUDA_DEVICE_MEMORY_SHARED_CACHE="$region" "$client" </dev/null >/dev/null
	echo "$library" >"$box/etc/ld.so.preload"
	later=1
	by_exec secure /client "$first" "$second" "$third"
	rm "$box/etc/ld.so.preload"
	check "set-user-ID: $order" is "$wrong" 0
done

# A process that comes without anything is in no share (berth(7)); it makes nothing that others would meet.
fresh
check "without any variable a program is in no share" is "$(printf 'info\nquit\n' | boxed A=b "$client" | tail -n 1)" \
	"info $((8192 * M)) $((8192 * M))"
check "and leaves none" is "$(find "$BERTH_STATE_DIR" -name '*.cache' 2>/dev/null)" ""
answer=$(printf 'alloc x 2G\nquit\n' | boxed CUDA_DEVICE_MEMORY_LIMIT=1G CUDA_DEVICE_MEMORY_SHARED_CACHE="$region" "$client" | tail -n 1)
check "the next with 1 GiB has 1 GiB" is "$answer" "x error 2 CUDA_ERROR_OUT_OF_MEMORY"
end
