#!/bin/bash
# A /proc that hides other users' processes (hidepid=2): joining, asking and looking go on; a seat whose process can't
# be seen is alive all the same, for the kernel's lock says so.
if [ -z "${HIDDEN-}" ] && unshare -m --propagation private true 2>/dev/null; then
	HIDDEN=yes exec unshare -m --propagation private bash "$0" "$@"
fi
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
[ -n "${HIDDEN-}" ] || skip "no mount namespace can be made here (needs root)"
mount -t proc -o hidepid=2 proc /proc 2>/dev/null || skip "no /proc with hidepid can be mounted here"
ann=61001 bob=61002
as() { # UID COMMAND...
	setpriv --reuid="$1" --regid="$1" --clear-groups "${@:2}"
}
as $ann true 2>/dev/null || skip "this user can't become others (needs root)"
as $ann test -x "$client" -a -x "$berth" || skip "other users can't reach the build in $BERTH_BUILD"
chmod 755 "$work"
export BERTH_SIM_GPUS=1x8G BERTH_SIM_CONTEXT_BYTES=0
M=$((1024 * 1024))

visit() { # UID NAME COMMAND...
	mkfifo "$work/$2.in"
	setpriv --reuid="$1" --regid="$1" --clear-groups env BERTH_STATE_DIR="$work/of.$1" "${@:3}" <"$work/$2.in" >"$work/$2.out" 2>"$work/$2.err" &
	pid=$!
	children+=("$pid")
}
answered() { # NAME TEXT: waits until it has said so
	for _ in $(seq 400); do grep -qF "$2" "$work/$1.out" && return 0; sleep 0.05; done
	echo "      $1 said: $(cat "$work/$1.out" "$work/$1.err")"
	return 1
}
for uid in $ann $bob; do mkdir -m 700 "$work/of.$uid" && chown "$uid:$uid" "$work/of.$uid"; done

sleep 300 &
other=$!
children+=("$other")
check "root's processes are hidden" [ "$(as $ann ls /proc | grep -cx "$other")" = 0 ]
visit $ann first "$berth" run -q --sim --name hidden -m 1G -- "$client"
exec 7>"$work/first.in"
check "a user's program joins" answered first "ready"
echo "alloc x 500M" >&7
check "and is granted" answered first "x ok"
echo "alloc y 600M" >&7
check "and refused" answered first "y error 2"
list=$(as $ann env BERTH_STATE_DIR="$work/of.$ann" "$berth" ps --json)
check "ps shows its process" is "$(jq '.[0].processes | length' <<<"$list")" 1
check "with what it holds" is "$(jq '.[0].gpus[0].charged_bytes' <<<"$list")" $((500 * M))

# Another user in the same region, who sees none of the first one's processes.
region=$work/of.$ann/shares/hidden/region.cache
chmod 711 "$work/of.$ann" "$work/of.$ann/shares" "$work/of.$ann/shares/hidden"
chmod 666 "$region"
visit $bob second env CUDA_DEVICE_MEMORY_LIMIT=1G CUDA_DEVICE_MEMORY_SHARED_CACHE="$region" \
	LD_LIBRARY_PATH="$BERTH_BUILD/lib/sim" LD_PRELOAD="$BERTH_BUILD/lib/libberth-cuda.so" "$client"
exec 8>"$work/second.in"
second_pid=$pid
check "another user joins it" answered second "ready"
echo "alloc a 525M" >&8
check "the hidden neighbour lives, and counts" answered second "a error 2"
echo "alloc b 524M" >&8
check "what fits beside it is granted" answered second "b ok"
list=$(as $ann env BERTH_STATE_DIR="$work/of.$ann" "$berth" ps --json)
check "ps counts the seat whose process it can't see" is "$(jq '.[0].gpus[0].charged_bytes' <<<"$list")" $((1024 * M))
check "and lists it" is "$(jq '.[0].processes | length' <<<"$list")" 2
run as $ann env BERTH_STATE_DIR="$work/of.$ann" "$berth" ps
check "in words, too" [ "$status" = 0 ]
kill -9 "$second_pid"
wait "$second_pid" 2>/dev/null
echo "alloc z 524M" >&7
check "a hidden neighbour that died is found dead" answered first "z ok"
echo quit >&7
end
