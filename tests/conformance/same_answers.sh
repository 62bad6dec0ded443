#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# same_answers.sh: every function of the driver, given nothing but zeros, answers the same bare and
# through the preloaded library, unlimited and within a share: before cuInit, after it, and with
# a context. So do the 32-bit forms beside the 64-bit ones, but for the totals that a share has.
set -eu

build=${BERTH_BUILD:?}
symbols=${BERTH_SOURCE:?}/tests/data/cuda13-symbols.tsv
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

LD_LIBRARY_PATH=$build/lib/sim
BERTH_STATE_DIR=$work/state
export LD_LIBRARY_PATH BERTH_STATE_DIR
mkdir -m 0700 "$BERTH_STATE_DIR"
status=0

answers() { # [TOTAL-BYTES]
	"$build/bin/berth-answers-client" "$symbols"
	"$build/bin/berth-narrow-client" "$@"
}

answers >"$work/bare"
lines=$(grep -cE '^(before-init|initialized|context) ' "$work/bare")
echo "$lines answers"
[ "$lines" -eq $((3 * $(grep -vc '^#' "$symbols"))) ] || status=1
if grep -E '^wrong| (died|missing)' "$work/bare"; then
	status=1
fi
# A driver that says the same to everything would make this comparison empty.
[ "$(cut -d' ' -f3 "$work/bare" | sort -u | wc -l)" -ge 5 ] || status=1

preload=$build/lib/libberth-cuda.so
(LD_PRELOAD=$preload && export LD_PRELOAD && answers) >"$work/unlimited"
(
	LD_PRELOAD=$preload CUDA_DEVICE_MEMORY_LIMIT=1G
	CUDA_DEVICE_MEMORY_SHARED_CACHE=$work/region
	export LD_PRELOAD CUDA_DEVICE_MEMORY_LIMIT CUDA_DEVICE_MEMORY_SHARED_CACHE
	answers 1073741824
) >"$work/limited"
for kind in unlimited limited; do
	if ! diff "$work/bare" "$work/$kind"; then
		echo "wrong: $kind (>) answers otherwise than the bare driver (<)"
		status=1
	fi
done
exit "$status"
