#!/bin/bash
# What `cmake --install` puts in place works from there.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
run cmake --install "$BERTH_BUILD" --prefix "$work/prefix"
check "it installs" is "$status" 0
run "$work/prefix/bin/berth" version
check "the command finds its own library" has "$out" "$work/prefix/lib"
check "and simulator" has "$out" "/berth/sim"
run "$work/prefix/bin/berth" run --sim -q -m 1G -- "$client"
check "and runs a program in a share" has "$out" "ready"
for page in man1/berth.1 man1/berth-check.1 man1/berth-limit.1 man1/berth-run.1 man3/berth_recordlock.3 man7/berth.7 man8/berthd.8; do
	check "man page $page" test -s "$work/prefix/share/man/$page"
done
run "$work/prefix/sbin/berthd" --version
check "the daemon runs" is "$status" 0
check "its unit starts the one that is installed" grep -q "^ExecStart=.*/sbin/berthd" "$work/prefix/lib/systemd/system/berthd.service"
check "its socket stands beside it" test -s "$work/prefix/lib/systemd/system/berthd.socket"
check "what containers share is made at boot" grep -q "^d /run/berth 0755 root root" "$work/prefix/lib/tmpfiles.d/berth.conf"
check "the completion is a script" bash -n "$work/prefix/share/bash-completion/completions/berth"
end
