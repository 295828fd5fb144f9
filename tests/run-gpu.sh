#!/bin/bash
# Builds laconic for this machine's GPUs, runs all tests on the first, then measures it: training steps beside PyTorch
# where there is one, selection and codecs. Logs and tables go into one folder; the last line says how the tests went,
# and what failed.
#   bash tests/run-gpu.sh [FOLDER]      FOLDER: gpu-results unless given
#   BUILD=dir           build there instead of in build-gpu/
#   SETUP_ARGS=...      more arguments for meson setup
#   PARTS="tests step layers select codec"      only these
#   LACONIC_PYTHON=...  the Python whose PyTorch is measured
# Ends with 2 where there is no GPU or no nvcc, with 1 where the build, a test or a benchmark failed.
set -u
results=$(realpath -m "${1:-gpu-results}")
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build-gpu} parts=" ${PARTS:-tests step layers select codec} "

refuse() {
  echo "run-gpu: $1" >&2
  exit 2
}
command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] ||
  refuse "there is no nvcc: install NVIDIA's CUDA toolkit, and the headers of cuDNN and NCCL (docs/cuda.md)."
gpus=$(nvidia-smi --query-gpu=compute_cap,name,driver_version --format=csv,noheader 2>/dev/null) || gpus=""
[ -n "$gpus" ] || refuse "there is no NVIDIA GPU here, or no driver for it;
  SETUP_ARGS=-Dcuda=emulated bash tests/run.sh tests without one."
# All kinds that are here: which of them is cuda:0 CUDA decides. An old one beside them must not end the build.
capabilities=$(cut -d, -f1 <<<"$gpus" | tr -d ' .' | awk '$1 >= 75' | sort -nu | paste -sd,)
[ -n "$capabilities" ] || refuse "the GPU is too old, it must have compute capability 7.5 or later: $gpus"

mkdir -p "$results" || exit 1
{ date -u +%F; echo "$gpus"; git describe --always --dirty 2>/dev/null; } >"$results/machine.txt"
echo "$gpus"

stop() {   # what failed, its log
  tail -n 40 "$2"
  echo "$1 failed: all of it is in $2"
  exit 1
}
bash apps/setup.sh || exit 1
again=""
[ ! -f "$build/build.ninja" ] || again=--reconfigure   # what was built here may be for other GPUs
meson setup $again "$build" -Dcuda=enabled "-Dnvcc_architectures=$capabilities" ${SETUP_ARGS:-} \
  >"$results/setup.txt" 2>&1 || stop "meson setup" "$results/setup.txt"
ninja -C "$build" >"$results/build.txt" 2>&1 || stop "The build" "$results/build.txt"
laconic=$build/apps/laconic

outcome="tests not run" failed=()
if [[ $parts == *" tests "* ]]; then
  # A driver that is too old would otherwise pass as "all skipped".
  BUILD=$build LACONIC_TEST_NEEDS_CUDA=1 bash tests/run.sh | tee "$results/tests.txt"
  [ "${PIPESTATUS[0]}" = 0 ] || failed+=(tests)
  skipped=$(tail -n 2 "$results/tests.txt" | grep -o '^[0-9]* skipped')
  outcome="$(tail -n 1 "$results/tests.txt"), ${skipped:-0 skipped}"
  cp "$build/meson-logs/testlog.txt" "$results/" 2>/dev/null
fi

python=${LACONIC_PYTHON:-python3}
against=() zoo=()   # what has torch; what has torchvision too, whose ResNet-50 is measured
if "$python" -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
  against=(--against torch)
  export LACONIC_PYTHON=$python
  if "$python" -c 'import torch, torchvision' 2>/dev/null; then zoo=("${against[@]}")
  else echo "$python has no torchvision: resnet50 is measured alone."
  fi
else
  echo "No PyTorch that finds the GPU: steps are measured alone (LACONIC_PYTHON names another Python)."
fi

measure() {   # name of the table, arguments of laconic bench
  local name=$1 ended=0
  shift
  echo "== laconic bench $*"
  "$laconic" bench "$@" --markdown >"$results/$name.md" 2>"$results/$name.err" || ended=1
  cat "$results/$name.md" "$results/$name.err"
  [ -s "$results/$name.err" ] || rm "$results/$name.err"
  [ $ended = 0 ] || failed+=("$name")
  return $ended
}

step() {   # model, batch sizes, --against torch or nothing
  local model=$1 batches=$2 table=$results/step-$1.md batch precision row
  shift 2
  rm -f "$table" "$results/step-$model-"*
  # A run for each row: where one fails, for want of memory perhaps, the others stay.
  for batch in $batches; do
    for precision in fp32 tf32 bf16; do
      row=step-$model-$batch-$precision
      measure "$row" step --model "$model" --batch "$batch" --device cuda --precision "$precision" --blocks 9 \
        --block-seconds 0.5 "$@" || continue
      if [ -f "$table" ]; then tail -n 1 "$results/$row.md" >>"$table"; else cp "$results/$row.md" "$table"; fi
      rm "$results/$row.md"
    done
  done
}
if [[ $parts == *" step "* ]]; then
  step resnet50 "64 128" "${zoo[@]}"
  step vgg16 64 "${against[@]}"
  step alexnet 256 "${against[@]}"
  step resnet20 "128 1024" "${against[@]}"
  step lstm-1500 "20 128" "${against[@]}"
fi
if [[ $parts == *" layers "* ]]; then
  measure layers-resnet50 layers --model resnet50 --batch 128 --device cuda
  measure layers-lstm-1500 layers --model lstm-1500 --batch 20 --device cuda
fi
[[ $parts != *" select "* ]] ||
  measure select select --device cuda --elements 2^20,2^24,2^26 --data normal,heavy "${against[@]}"
[[ $parts != *" codec "* ]] || measure codec codec --device cuda --mib 256

echo "Tables: $results"
[ ${#failed[@]} = 0 ] || { echo "$outcome; failed: ${failed[*]}"; exit 1; }
echo "$outcome"
