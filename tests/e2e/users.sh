#!/bin/bash
# Programs of different users: one share where the region's mode allows it, a refusal in words where not.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
ann=61001 bob=61002 eve=61003
as() { # UID COMMAND...
	setpriv --reuid="$1" --regid="$1" --clear-groups "${@:2}"
}
as $ann true 2>/dev/null || skip "this user can't become others (needs root)"
as $ann test -x "$client" -a -r "$BERTH_BUILD/lib/libberth-cuda.so" || skip "other users can't reach the build in $BERTH_BUILD"
chmod 755 "$work"
mkdir -m 755 "$work/share"
region=$work/share/region.cache

# visit UID NAME [VARIABLE=VALUE...]: a client of that user, with a made-up GPU of its own, in the region; told
# what to do by $work/NAME.in
visit() {
	local own=$work/of.$2
	mkdir "$own" && chown "$1:$1" "$own"
	mkfifo "$work/$2.in"
	setpriv --reuid="$1" --regid="$1" --clear-groups env BERTH_STATE_DIR="$own" BERTH_SIM_GPUS=1x8G BERTH_SIM_CONTEXT_BYTES=0 CUDA_DEVICE_MEMORY_LIMIT=1G \
		CUDA_DEVICE_MEMORY_SHARED_CACHE="$region" LD_LIBRARY_PATH="$BERTH_BUILD/lib/sim" \
		LD_PRELOAD="$BERTH_BUILD/lib/libberth-cuda.so" "${@:3}" "$client" \
		<"$work/$2.in" >"$work/$2.out" 2>"$work/$2.err" &
	pid=$!
	children+=("$pid")
}
answered() { # NAME TEXT: waits until it has said so
	for _ in $(seq 400); do grep -qF "$2" "$work/$1.out" && return 0; sleep 0.05; done
	echo "      $1 said: $(cat "$work/$1.out" "$work/$1.err")"
	return 1
}

visit 0 owner
exec 7>"$work/owner.in"
check "root makes the region" answered owner "ready"
check "for itself alone" is "$(stat -c %a "$region")" 600

visit $eve stranger
echo quit >"$work/stranger.in"
wait "$pid"
check "another user gets no GPU" [ $? -ne 0 ]
check "and is told why" has "$(cat "$work/stranger.err")" "$region: this user may not open it"
check "and what to do" has "$(cat "$work/stranger.err")" "choose another path"
check "once" is "$(grep -c '^berth\[' "$work/stranger.err")" 1

chmod 666 "$region"
visit $ann a
exec 8>"$work/a.in"
ann_pid=$pid
check "opened to all, one user joins" answered a "ready"
visit $bob b
exec 9>"$work/b.in"
check "and another" answered b "ready"
echo "alloc x 500M" >&8
check "her 500 MiB are granted" answered a "x ok"
echo "alloc y 600M" >&9
check "his 600 MiB don't fit beside them" answered b "y error 2"
kill -9 "$ann_pid"
wait "$ann_pid" 2>/dev/null
echo "alloc z 600M" >&9
check "after her death they do" answered b "z ok"
echo "alloc w 500M" >&7
check "and count for root, too" answered owner "w error 2"
echo quit >&9
echo quit >&7

# The state directory is one user's.
mkdir -m 700 "$work/anns" && chown $ann:$ann "$work/anns"
run as $bob env BERTH_STATE_DIR="$work/anns" "$berth" run --sim -m 1G -- true
check "another's state directory is refused" [ "$status" -ne 0 ]
check "by its name" has "$err" "$work/anns"
mkdir -m 777 "$work/all"
chmod 777 "$work/all" && chown $bob:$bob "$work/all"
run as $bob env BERTH_STATE_DIR="$work/all" "$berth" run --sim -m 1G -- true
check "so is one that others can write" [ "$status" -ne 0 ]
check "with the remedy" has "$err" "chmod go-w $work/all"
mkdir -m 555 "$work/closed"
chown $bob:$bob "$work/closed"
mkdir "$work/node" && chown $bob:$bob "$work/node"
run as $bob env BERTH_SIM_STATE="$work/node/node" BERTH_STATE_DIR="$work/closed" "$berth" run --sim -m 1G -- true
check "one that can't be written is refused" [ "$status" -ne 0 ]
check "by its name and variable" has "$err" "$work/closed"
check "with the remedy" has "$err" "BERTH_STATE_DIR"

# /run/berth is root's state directory and the node's, in which others look for the broker's socket.
if unshare -m true 2>/dev/null; then
	# shellcheck disable=SC2016 # for the inner shell
	run env -u BERTH_STATE_DIR BERTH_SIM_STATE="$work/node/root" unshare -m --propagation private sh -c 'mount -t tmpfs -o mode=755 run /run &&
		"$0" run --sim -q -m 1G -- true && stat -c "%a %n" /run/berth /run/berth/shares' "$berth"
	check "root's state directory can be looked into, what is in it can't" is "$out" $'755 /run/berth\n700 /run/berth/shares'
fi
end
