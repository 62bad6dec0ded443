#!/bin/bash
# A program that GCC compiled for OpenMP offload to nvptx, with libgomp's own plug-in, on the simulated GPU.
# shellcheck source=../e2e/lib.sh
. "$(dirname "$0")/../e2e/lib.sh"
command -v gcc-12 >/dev/null || skip "gcc-12 is not installed (scripts/setup clients)"
# A toolkit's ptxas, if one is in the path, is asked to check the code and refuses GCC 12's sm_35.
PATH=/usr/bin:/bin gcc-12 -O1 -fopenmp -foffload=nvptx-none -o "$work/offload" "$BERTH_SOURCE/tests/clients/offload.c" 2>"$work/err" ||
	skip "gcc-12-offload-nvptx is not installed (scripts/setup clients): $(head -n 1 "$work/err")"
export BERTH_SIM_GPUS=1x8G OMP_TARGET_OFFLOAD=MANDATORY

run "$berth" run --sim -q -m 1G -- "$work/offload" 4 100
check "400 MiB under 1 GiB: data goes there and back unchanged" is "$out" "4 blocks of 100 MiB on the GPU"
check "and it ends well" is "$status" 0
run "$berth" run --sim -q -m 1G -- "$work/offload" 12 100
check "1200 MiB under 1 GiB: the program meets the limit" has "$out$err" "ut of memory"
check "and fails" test "$status" -ne 0
run "$berth" run --sim -q -m 3G -- "$work/offload" 12 100
check "1200 MiB under 3 GiB runs" is "$out" "12 blocks of 100 MiB on the GPU"
run env LD_LIBRARY_PATH="$BERTH_BUILD/lib/sim" "$work/offload" 12 100
check "negative control: without Berth it gets past 1 GiB" is "$out" "12 blocks of 100 MiB on the GPU"
end
