#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# runtime_lookups.sh: NVIDIA's own CUDA runtime, from an installed toolkit, on the simulated driver.
# It finds all that it looks for, initialises the driver, asks for private tables, is told that
# they aren't supported and gives up with just that (801), bare and through the preloaded library.
# Exit 77 without a toolkit of the version whose look-ups are recorded.
set -eu

build=${BERTH_BUILD:?}
lookups=${BERTH_SOURCE:?}/tests/data/cudart13-lookups.tsv
toolkit=${CUDA_HOME:-/usr/local/cuda}
runtime=$toolkit/lib64/libcudart.so.13
if ! [ -r "$runtime" ] || ! grep -q '^#define CUDA_VERSION 13000' "$toolkit/include/cuda.h"; then
	echo "skipped: no CUDA 13.0 toolkit at $toolkit"
	exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
LD_LIBRARY_PATH=$build/lib/sim
BERTH_STATE_DIR=$work/state
export LD_LIBRARY_PATH BERTH_STATE_DIR
mkdir -m 0700 "$BERTH_STATE_DIR"
status=0

see() { # KIND PRELOAD
	if ! LD_PRELOAD=$2 BERTH_SIM_LOG=$work/$1.log "$build/bin/berth-runtime-client" "$runtime" \
		>"$work/$1.out"; then
		echo "wrong: $1: the program failed"
		status=1
	fi
	"$build/bin/berth-sim-log" --names "$work/$1.log" | uniq -c | awk '{ print $1, $2 }' >"$work/$1"
	cat "$work/$1.out"
	grep -q '^cudaGetDeviceCount 801$' "$work/$1.out" || status=1
	# What the real library did, not what we remember of it.
	wanted=$(grep -vc '^#' "$lookups")
	if ! grep -q "^$wanted cuGetProcAddress_v2$" "$work/$1"; then
		echo "wrong: $1: not $wanted look-ups in one go:"
		cat "$work/$1"
		status=1
	fi
	grep -q '^1 cuInit$' "$work/$1" || status=1
	grep -q ' cuGetExportTable$' "$work/$1" || status=1
}

see bare ''
if [ -e "$build/lib/libberth-cuda.so" ]; then
	see berth "$build/lib/libberth-cuda.so"
fi
exit "$status"
