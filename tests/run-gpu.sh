#!/bin/bash
# Builds laconic for this machine's GPU, runs all tests on it, then measures it: training steps beside PyTorch where
# there is one, selection and codecs. Logs and tables go into one folder; the last line says how the tests went.
#   bash tests/run-gpu.sh [FOLDER]      FOLDER: gpu-results unless given
#   BUILD=dir           build there instead of in build-gpu/
#   PARTS="tests step layers select codec"      only these
#   LACONIC_PYTHON=...  the Python whose PyTorch is measured
# Ends with 2 where there is no GPU or no nvcc, with 1 where a test failed or a benchmark did not run.
set -u
results=$(realpath -m "${1:-gpu-results}")
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build-gpu} parts=" ${PARTS:-tests step layers select codec} "

command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] ||
  { echo "run-gpu: there is no nvcc: install NVIDIA's CUDA toolkit (nvcc, and the headers of cuBLAS, cuDNN and NCCL)." >&2; exit 2; }
gpu=$(nvidia-smi --query-gpu=name,compute_cap,driver_version --format=csv,noheader 2>/dev/null | head -n 1)
[ -n "$gpu" ] ||
  { echo "run-gpu: there is no NVIDIA GPU here, or no driver for it; SETUP_ARGS=-Dcuda=emulated bash tests/run.sh tests without one." >&2; exit 2; }
capability=$(cut -d, -f2 <<<"$gpu" | tr -d ' .')

mkdir -p "$results" || exit 1
{ date -u +%F; echo "$gpu"; git describe --always --dirty 2>/dev/null; } >"$results/machine.txt"
echo "GPU: $gpu"

outcome="tests not run" status=0
export BUILD=$build SETUP_ARGS="-Dcuda=enabled -Dnvcc_architectures=$capability ${SETUP_ARGS:-}"
if [[ $parts == *" tests "* ]]; then
  bash tests/run.sh | tee "$results/tests.txt"
  [ "${PIPESTATUS[0]}" = 0 ] || status=1
  outcome=$(tail -n 1 "$results/tests.txt")
  cp "$build/meson-logs/testlog.txt" "$results/" 2>/dev/null
else
  bash apps/setup.sh && { [ -f "$build/build.ninja" ] || meson setup "$build" $SETUP_ARGS >/dev/null; } &&
    ninja -C "$build" >"$results/build.txt" 2>&1 || { tail "$results/build.txt"; exit 1; }
fi
laconic=$build/apps/laconic
[ -x "$laconic" ] || { echo "$outcome; laconic was not built"; exit 1; }

python=${LACONIC_PYTHON:-python3}
against=()
if "$python" -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
  against=(--against torch)
  export LACONIC_PYTHON=$python
else
  echo "No PyTorch that finds the GPU: steps are measured alone (LACONIC_PYTHON names another Python)."
fi

measure() {   # name of the table, arguments of laconic bench
  local name=$1
  shift
  echo "== laconic bench $*"
  "$laconic" bench "$@" --markdown >"$results/$name.md" 2>"$results/$name.err"
  local failed=$?
  cat "$results/$name.md" "$results/$name.err"
  [ -s "$results/$name.err" ] || rm "$results/$name.err"
  [ $failed = 0 ] || status=1
}

step() {   # model, batch sizes
  measure "step-$1" step --model "$1" --batch "$2" --device cuda --precision fp32,tf32,bf16 --blocks 9 \
    --block-seconds 0.5 ${against[@]+"${against[@]}"}
}
if [[ $parts == *" step "* ]]; then
  step resnet50 64,128
  step vgg16 64
  step alexnet 256
  step resnet20 128,1024
  step lstm-1500 20,128
fi
if [[ $parts == *" layers "* ]]; then
  measure layers-resnet50 layers --model resnet50 --batch 128 --device cuda
  measure layers-lstm-1500 layers --model lstm-1500 --batch 20 --device cuda
fi
[[ $parts != *" select "* ]] || measure select select --device cuda --elements 2^20,2^24,2^26 --data normal,heavy \
  ${against[@]+"${against[@]}"}
[[ $parts != *" codec "* ]] || measure codec codec --device cuda --mib 256

echo "Tables: $results"
echo "$outcome"
exit $status
