#!/bin/bash
# Programs in pid namespaces of their own: pids mean nothing across them, the books hold all the same.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
unshare -pf true 2>/dev/null || skip "no pid namespace can be made here (needs root)"
export BERTH_SIM_GPUS=1x8G BERTH_SIM_PROC=/proc
M=$((1024 * 1024))

boxed() { # NAME BERTH-RUN-OPTIONS... : as pid 1 of a namespace, told what to do by $work/NAME.in
	mkfifo "$work/$1.in"
	unshare -pf --kill-child "$berth" run -q --sim "${@:2}" -- "$client" <"$work/$1.in" >"$work/$1.out" 2>"$work/$1.err" &
	children+=($!)
}
answered() { # NAME TEXT: waits until it has said so
	for _ in $(seq 400); do grep -qF "$2" "$work/$1.out" && return 0; sleep 0.05; done
	echo "      $1 said: $(cat "$work/$1.out" "$work/$1.err")"
	return 1
}

boxed a --name both -m 1G
exec 7>"$work/a.in"
boxed b --name both -m 1G
exec 8>"$work/b.in"
check "a is pid 1 of its namespace" answered a "ready 1"
check "so is b" answered b "ready 1"
echo "alloc x 500M" >&7
check "a's 500 MiB are granted" answered a "x ok"
echo "alloc y 500M" >&8
check "b's 500 MiB don't fit beside them" answered b "y error 2"
list=$("$berth" ps --json | jq '.[0].processes')
check "ps lists two processes of pid 1" is "$(jq -c 'map(.pid)' <<<"$list")" "[1,1]"
check "of two namespaces" is "$(jq 'map(.pid_namespace) | unique | length' <<<"$list")" 2
check "and gives neither another process's name" is "$(jq -r 'map(.command) | unique | .[]' <<<"$list")" \
	"(in another pid namespace)"
echo quit >&7
for _ in $(seq 200); do
	left=$("$berth" ps --json | jq '[.[].processes | length] | add // 0')
	[ "$left" = 1 ] && break
	sleep 0.05
done
echo "alloc z 500M" >&8
check "after a's end they do" answered b "z ok"
echo quit >&8

# A context's own memory is measured; what a neighbour allocates meanwhile is not this share's.
actor neighbour --name neighbour -m 4G
export BERTH_SIM_FAULTS=cuDevicePrimaryCtxRetain:linger=2s
boxed v --name victim -m 1G
exec 9>"$work/v.in"
unset BERTH_SIM_FAULTS
sleep 1
tell neighbour alloc big 2G
check "a neighbour allocates while the context is made" is "$answer" "big ok"
check "the context gets made" answered v "ready 1"
charged=$("$berth" ps --json | jq '.[] | select(.name == "victim") | .gpus[0].charged_bytes')
check "and its share is charged for the context only" is "$charged" $((96 * M))
echo quit >&9
end
