#!/bin/bash
# Debian's ffmpeg, unchanged, on the simulated GPU: real frames through device memory come back bit-identical, and
# `reverse`, which keeps every frame on the GPU, meets the share's limit with ffmpeg's own out-of-memory error.
# shellcheck source=../e2e/lib.sh
. "$(dirname "$0")/../e2e/lib.sh"
command -v ffmpeg >/dev/null || skip "ffmpeg is not installed (scripts/setup clients)"
export BERTH_SIM_GPUS=1x8G
sim=$BERTH_BUILD/lib/sim

bare() { env LD_LIBRARY_PATH="$sim" "$@"; }
share() { "$berth" run --sim -q -m "$1" -- "${@:2}"; }
# 90 frames of a moving picture as a checksum each, with a filter on their way; run by PREFIX...
frames() { # FILTER PREFIX...
	"${@:2}" ffmpeg -nostdin -v error -f lavfi -i testsrc2=size=640x360:rate=30:duration=3 -vf "format=nv12$1" -f framemd5 -
}
# 200 frames of 1080p in 16 bits held on the GPU at once: 2.65 GB.
filter=format=yuv444p16,hwupload_cuda,reverse,hwdownload,format=yuv444p16
reverse=(ffmpeg -nostdin -v error -f lavfi -i "testsrc2=size=1920x1080:rate=50:duration=4" -vf "$filter" -f null -)

software=$(frames "")
through=$(frames ",hwupload_cuda,hwdownload,format=nv12" share 1G)
check "the software path gives 90 frames" is "$(printf '%s\n' "$software" | grep -vc '^#')" 90
check "frames through device memory come back bit-identical" is "$through" "$software"

run share 1G "${reverse[@]}"
check "reverse under 1 GiB fails" test "$status" -ne 0
check "with ffmpeg's own words for out of memory" has "$err" "CUDA_ERROR_OUT_OF_MEMORY"
run share 3G "${reverse[@]}"
check "reverse under 3 GiB runs to its end" is "$status" 0
check "without a word" is "$err" ""
run bare "${reverse[@]}"
check "negative control: without Berth it gets past 1 GiB" is "$status" 0

run share 1G ffmpeg -nostdin -v error -f lavfi -i testsrc2=size=640x360:rate=30:duration=1 \
	-vf format=nv12,hwupload_cuda,scale_cuda=320:180,hwdownload,format=nv12 -f null -
check "scale_cuda launches its kernels" is "$status" 0
run "$berth" ps --json
check "nobody sits in a share any more" is "$out" "[]"
end
