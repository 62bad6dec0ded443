#!/bin/bash
# scripts/demo on this build: every verdict is yes, and the run leaves nothing behind.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
run "$BERTH_SOURCE/scripts/demo" --no-pause
printf '%s\n' "$out" "$err" | tail -n 20
check "it ends well" is "$status" 0
check "six things were to be seen" is "$(printf '%s\n' "$out" | grep -c '^   yes  ')" 6
check "none was missed" is "$(printf '%s\n' "$out" | grep -c '^   NO')" 0
check "no colours in a pipe" is "$(printf '%s' "$out" | grep -c "$(printf '\033')")" 0
end
