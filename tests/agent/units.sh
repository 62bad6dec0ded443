#!/bin/bash
# The units that come with berthd are accepted by systemd, keep it powerless, and serve where clients look; the
# man page tells of each option. Skips what the machine has no tools for.
# shellcheck source=../e2e/lib.sh
. "$(dirname "$0")/../e2e/lib.sh"
berthd=$BERTH_BUILD/bin/berthd
service=$BERTH_BUILD/systemd/berthd.service
socket=$BERTH_BUILD/systemd/berthd.socket

check "the socket is where clients look" grep -qx 'ListenStream=/run/berth/broker.sock' "$socket"
check "anybody may connect to it" grep -qx 'SocketMode=0666' "$socket"
check "shares in /run/berth outlive the service" is "$(grep -c '^RuntimeDirectory' "$service")" 0
check "the service sees the host's pids" is "$(grep -c '^PrivatePIDs' "$service")" 0
if command -v systemd-analyze >/dev/null; then
	mkdir "$work/units"
	# It is not installed where the unit says.
	sed "s#^ExecStart=.*#ExecStart=$berthd#" "$service" >"$work/units/berthd.service"
	cp "$socket" "$work/units"
	run systemd-analyze verify --man=no "$work/units/berthd.socket" "$work/units/berthd.service"
	check "systemd accepts them" is "$status$out$err" 0
	run systemd-analyze security --offline=true --threshold=15 "$work/units/berthd.service"
	check "and finds it confined" is "$status" 0
fi
for option in $("$berthd" --help | grep -oE -- '--[a-z-]+' | sort -u); do
	check "the man page tells of $option" grep -qE "Fl (.* )?${option#-}( |\$|,)" "$BERTH_SOURCE/man/berthd.8"
done
end
