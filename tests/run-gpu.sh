#!/bin/bash
# Builds laconic for this machine's GPUs, runs its tests on the first, then measures it: training steps beside PyTorch
# where there is one, selection and codecs beside a copy. What matters most comes first, so that a run that is cut short
# tells most. All of it goes into one folder, and into FOLDER.tar.gz; the last line says how the tests went, and what
# failed.
#   bash tests/run-gpu.sh [FOLDER]      FOLDER: gpu-results unless given
#   BUILD=dir           build there instead of in build-gpu/
#   PREBUILT=dir        build nothing: take what `PACK=dir bash tests/run-gpu.sh` made, perhaps on another machine
#   PACK=dir            only build (or take BUILD as it is, if SETUP_ARGS is "none"), and put programs and the libraries
#                       that they need there, stripped
#   SETUP_ARGS=...      more arguments for meson setup; for PACK=dir the architecture, as -Dnvcc_architectures=90
#   DEADLINE=seconds    so long for all: what is under way then is ended, the rest is named, and the summary follows
#   PARTS="cuda tests step layers select codec kernels sanitizer"      only these
#   LACONIC_PYTHON=...  the Python whose PyTorch is measured, and whose NVIDIA libraries are taken where there are any
#   DRY_RUN=1           every part in little, on the emulated device: with PREBUILT, or a BUILD of it
# Ends with 2 where there is no GPU or no nvcc, with 1 where the build, a test or a benchmark failed.
set -u
results=$(realpath -m "${1:-gpu-results}") begin=$SECONDS
prebuilt=${PREBUILT:+$(realpath -m "$PREBUILT")} pack=${PACK:+$(realpath -m "$PACK")}
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build-gpu} dry=${DRY_RUN:-} python=${LACONIC_PYTHON:-python3}
parts=" ${PARTS:-cuda tests step layers select codec kernels sanitizer} "
programs="cuda compress layers dist optim trainer servers"   # their tests, the most telling first

refuse() {
  echo "run-gpu: $1" >&2
  exit 2
}
stop() {   # what failed, its log
  tail -n 40 "$2"
  echo "$1 failed: all of it is in $2"
  exit 1
}
# Seconds until the deadline, at most so many.
left() {
  local rest=$((${DEADLINE:-1000000} - (SECONDS - begin)))
  [ "$rest" -lt "$1" ] || rest=$1
  [ "$rest" -gt 0 ] || rest=0
  echo "$rest"
}

gpus=emulated
if [ -z "$dry$pack" ]; then
  gpus=$(nvidia-smi --query-gpu=compute_cap,name,driver_version --format=csv,noheader 2>/dev/null) || gpus=""
  [ -n "$gpus" ] || refuse "there is no NVIDIA GPU here, or no driver for it;
  SETUP_ARGS=-Dcuda=emulated bash tests/run.sh tests without one."
fi
if [ -z "$prebuilt" ] && [ "${SETUP_ARGS:-}" != none ]; then
  command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] ||
    refuse "there is no nvcc: install NVIDIA's CUDA toolkit, and the headers of cuDNN and NCCL (docs/cuda.md)."
  architectures=""
  if [ -z "$pack" ]; then
    # All kinds that are here: which of them is cuda:0 CUDA decides. An old one beside them must not end the build.
    capabilities=$(cut -d, -f1 <<<"$gpus" | tr -d ' .' | awk '$1 >= 75' | sort -nu | paste -sd,)
    [ -n "$capabilities" ] || refuse "the GPU is too old, it must have compute capability 7.5 or later: $gpus"
    architectures=-Dnvcc_architectures=$capabilities
  else
    # What another machine may lack.
    architectures="-Dmpi=disabled -Djpeg=disabled -Darchive=disabled -Dsnappy=disabled -Dlz4=disabled -Dzfp=disabled -Dzstd=disabled"
  fi
fi
[ -f "$results/machine.txt" ] || [ -z "$(ls -A "$results" 2>/dev/null)" ] ||
  refuse "$results is not empty, and holds no results of an earlier run: name another folder."
mkdir -p "$results" || exit 1
rm -rf "${results:?}"/* "$results.tar.gz"
touch "$results/machine.txt"

# ---- the build
if [ -z "$prebuilt" ] && [ "${SETUP_ARGS:-}" != none ]; then
  bash apps/setup.sh || exit 1
  again=""
  [ ! -f "$build/build.ninja" ] || again=--reconfigure   # what was built here may be for other GPUs
  # shellcheck disable=SC2086
  meson setup $again "$build" -Dcuda=enabled $architectures ${SETUP_ARGS:-} \
    >"$results/setup.txt" 2>&1 || stop "meson setup" "$results/setup.txt"
  ninja -C "$build" >"$results/build.txt" 2>&1 || stop "The build" "$results/build.txt"
fi
if [ -n "$pack" ]; then
  mkdir -p "$pack/apps" "$pack/tests" "$pack/lib" || exit 1
  cp "$build/apps/laconic" "$pack/apps/" || exit 1
  for program in $programs; do cp "$build/tests/${program}_test" "$pack/tests/" || exit 1; done
  strip "$pack"/apps/* "$pack"/tests/*
  # Not those of the C library, which belong to the other machine's kernel and loader.
  ldd "$pack"/apps/* "$pack"/tests/* | awk '$3 ~ /^\// {print $3}' | sort -u |
    grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv)\.so|/ld-linux' | xargs -r cp -Lt "$pack/lib"
  strip "$pack"/lib/* 2>/dev/null
  echo "$pack: $(du -sm "$pack" | cut -f1) MB"
  exit 0
fi
[ -z "$prebuilt" ] || build=$prebuilt
laconic=$build/apps/laconic
[ -x "$laconic" ] || refuse "there is no $laconic: PREBUILT=dir is what PACK=dir has made, or a build folder."

# PyTorch's wheels bring cuDNN, cuBLAS and NCCL, which a bare machine has nowhere else.
if [ -z "$dry" ]; then
  wheels=$("$python" -c 'import glob, os, sys
print(":".join(d for p in sys.path for d in sorted(glob.glob(os.path.join(p, "nvidia", "*", "lib")))))' 2>/dev/null)
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}${wheels}"
fi
# What was packed stands in for what is not here. It comes before the machine's own, for Python too: only where it must.
if [ -d "$build/lib" ] && ldd "$build"/apps/* "$build"/tests/* | grep -q 'not found'; then
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$build/lib"
fi
"$laconic" bench --help >/dev/null || refuse "$laconic cannot measure: see above."

{
  date -u '+%F %H:%M:%S'
  echo "$gpus"
  [ -n "$dry" ] || nvidia-smi --format=csv --query-gpu=name,driver_version,compute_cap,memory.total,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,power.limit,ecc.mode.current,mig.mode.current
  git describe --always --dirty 2>/dev/null
  "$laconic" --version
  nvcc --version 2>/dev/null | tail -n 2
  "$python" -c 'import torch; print("PyTorch", torch.__version__, "CUDA", torch.version.cuda, "cuDNN", torch.backends.cudnn.version())' 2>/dev/null
  echo "LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}"
} >"$results/machine.txt" 2>&1
cat "$results/machine.txt"

passed=0 broken=0 skipped=0 failed=() late=()
# A command under a time limit, its output in a file. 124: it was ended; 125: there was no time left to begin it.
limited() {   # seconds, file, command
  local most file=$2
  most=$(left "$1")
  shift 2
  if [ "$most" -lt 1 ]; then file=${file##*/} late+=("${file%.*}"); return 125; fi
  timeout -k 5 "$most" "$@" >"$file" 2>&1
}
# Whether a command with this status was begun, and did not end well.
is_bad() { [ "$1" != 0 ] && [ "$1" != 125 ]; }

# ---- tests: each suite in a process of its own, since after an illegal address nothing works there any more
export LACONIC_TEST_NEEDS_CUDA=1   # a driver that is too old would otherwise pass as "all skipped"
suites_of() {   # program, pattern of names: those that have tests for a device come first
  local without=()
  # Their golden files lie in the sources that the programs were built of.
  [ -z "$prebuilt" ] || without=("--gtest_filter=-*Golden*:Gpt.*:Operations.*:Optimizer.*:Schedule.*")
  "$build/tests/$1_test" --gtest_list_tests "${without[@]}" 2>/dev/null | sed -n 's/^\([A-Za-z][A-Za-z0-9_/]*\)\..*/\1/p' |
    { [ "$2" = all ] && cat || grep -E "$2"; }
}
suite() {   # program, suite
  local log=$results/tests/$1-${2//\//-}.txt began=$SECONDS status tests p f s
  limited "${SUITE_SECONDS:-120}" "$log" "$build/tests/$1_test" "--gtest_filter=$2.*"
  status=$?
  [ $status != 125 ] || return
  p=$(grep -c '^\[       OK \]' "$log") f=$(grep -c '^\[  FAILED  \] .*ms)$' "$log") s=$(grep -c '^\[  SKIPPED \] .*ms)$' "$log")
  case $status in
    0) tests=ok ;;
    124 | 137) tests="ended after $((SECONDS - began)) s" ;;
    *) tests="status $status" ;;
  esac
  [ "$status" = 0 ] || [ "$f" -gt 0 ] || f=1
  passed=$((passed + p)) broken=$((broken + f)) skipped=$((skipped + s))
  printf '%s\t%s\t%s\t%d passed\t%d failed\t%d skipped\t%d s\n' "$1" "$2" "$tests" "$p" "$f" "$s" $((SECONDS - began)) |
    tee -a "$results/tests.tsv"
  [ "$status" = 0 ] && rm "$log" || failed+=("$1/$2")
}
suites_are_run() {   # pattern of suites, programs
  local program name pattern=$1
  shift
  mkdir -p "$results/tests"
  for program; do
    [ -x "$build/tests/${program}_test" ] || continue
    for name in $(suites_of "$program" "$pattern"); do
      grep -qsF "$program"$'\t'"$name"$'\t' "$results/tests.tsv" || suite "$program" "$name"
    done
  done
}
few=all devices='Cuda|Nccl|Device'
[ -z "$dry" ] || few='^(CudaLibraries|CudaDevices)$' devices=$few
[[ $parts != *" cuda "* ]] || suites_are_run "$few" cuda
[[ $parts != *" tests "* ]] || suites_are_run "$devices" $programs

# ---- measurements
against=() zoo=()   # what has torch; what has torchvision too, whose ResNet-50 is measured
if [ -n "$dry" ]; then :
elif "$python" -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
  against=(--against torch)
  export LACONIC_PYTHON=$python
  if "$python" -c 'import torch, torchvision' 2>/dev/null; then zoo=("${against[@]}")
  else echo "$python has no torchvision: resnet50 is measured alone."
  fi
else
  echo "No PyTorch that finds the GPU: steps are measured alone (LACONIC_PYTHON names another Python)."
fi

measure() {   # name of the table, arguments of laconic bench
  local name=$1 ended
  shift
  echo "== laconic bench $*"
  limited "${BENCH_SECONDS:-180}" "$results/$name.md" "$laconic" bench "$@" --markdown
  ended=$?
  [ $ended != 125 ] || return 1
  cat "$results/$name.md"
  [ $ended = 0 ] || failed+=("$name")
  return $ended
}

step() {   # model, batch sizes, --against torch or nothing
  local model=$1 batches=$2 table=$results/step-$1.md batch precision row
  shift 2
  # A run for each row: where one fails, for want of memory perhaps, the others stay.
  for batch in $batches; do
    for precision in fp32 tf32 bf16; do
      row=step-$model-$batch-$precision
      measure "$row" step --model "$model" --batch "$batch" --device cuda --precision "$precision" --blocks $blocks \
        --block-seconds $block_seconds "$@" || continue
      if [ -f "$table" ]; then tail -n 1 "$results/$row.md" >>"$table"; else cp "$results/$row.md" "$table"; fi
      rm "$results/$row.md"
    done
  done
}
blocks=9 block_seconds=0.5
if [ -n "$dry" ]; then
  blocks=1 block_seconds=0.001
  [[ $parts != *" step "* ]] || step lenet 2
  [[ $parts != *" layers "* ]] || measure layers-lenet layers --model lenet --batch 2 --steps 1 --device cuda
  [[ $parts != *" select "* ]] || measure select select --device cuda --elements 5000 --data normal --rounds 1
  [[ $parts != *" codec "* ]] ||
    measure codec codec --device cuda --mib 0.01 --rounds 1 --codecs trunc:16
else
  if [[ $parts == *" step "* ]]; then
    step resnet50 "64 128" "${zoo[@]}"
    step resnet20 "128 1024" "${against[@]}"
    step lstm-1500 "20 128" "${against[@]}"
    step vgg16 64 "${against[@]}"
    step alexnet 256 "${against[@]}"
  fi
  # From 2^24 elements: caches hold fewer.
  [[ $parts != *" select "* ]] ||
    measure select select --device cuda --elements 2^24,2^26,2^28 --data normal,heavy "${against[@]}"
  [[ $parts != *" codec "* ]] || measure codec codec --device cuda --mib 256 --rounds 3
  if [[ $parts == *" layers "* ]]; then
    measure layers-resnet50 layers --model resnet50 --batch 128 --device cuda
    measure layers-lstm-1500 layers --model lstm-1500 --batch 20 --device cuda
  fi
fi

# ---- which kernels a step consists of: NVIDIA's profiler tells it, else its libraries' logs do in part
if [[ $parts == *" kernels "* ]] && [ -z "$dry" ]; then
  one=("$laconic" bench step --model resnet50 --batch 64 --device cuda --precision bf16 --blocks 1 --block-seconds 0.01)
  if command -v nsys >/dev/null; then
    limited 120 "$results/kernels.txt" nsys profile --force-overwrite true --stats true -t cuda,cudnn,cublas \
      -o "$results/step" "${one[@]}"
  else
    CUBLAS_LOGINFO_DBG=1 CUBLAS_LOGDEST_DBG="$results/cublas.txt" CUDNN_LOGLEVEL_DBG=2 \
      CUDNN_LOGDEST_DBG="$results/cudnn.txt" limited 60 "$results/kernels.txt" "${one[@]}"
  fi
  ! is_bad $? || failed+=(kernels)
  find "$results" -name '*.txt' -size +20M -exec truncate -s 20M {} +
fi

# ---- what NVIDIA's sanitizer sees of the kernels, with a piece of memory for each tensor
if [[ $parts == *" sanitizer "* ]]; then
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
  if [ -z "$sanitizer" ]; then
    echo "There is no compute-sanitizer here: nothing is known of races and addresses."
  else
    for tool in memcheck racecheck synccheck; do
      for program in cuda compress; do
        # Two tests are left out: one counts what the cache saves, one asks for more memory than there is.
        LACONIC_CUDA_NO_CACHE=1 limited 150 "$results/$tool-$program.txt" "$sanitizer" --tool "$tool" --error-exitcode 9 \
          "$build/tests/${program}_test" "--gtest_filter=*Cuda*-*DeathTest*:*MemoryIsCounted*:*ErrorsNameTheDevice*"
        ! is_bad $? || failed+=("$tool-$program")
        tail -n 2 "$results/$tool-$program.txt" 2>/dev/null
      done
    done
  fi
fi

# ---- what remains of the tests, as long as there is time
[[ $parts != *" tests "* ]] || [ -n "$dry" ] || suites_are_run all $programs

{
  echo "$passed passed, $broken failed, $skipped skipped, $((SECONDS - begin)) s"
  [ ${#failed[@]} = 0 ] || echo "failed: ${failed[*]}"
  [ ${#late[@]} = 0 ] || echo "not begun before the deadline: $(printf '%s\n' "${late[@]}" | awk '!seen[$0]++' | paste -sd ' ')"
} >"$results/summary.txt"
tar -C "$(dirname "$results")" -czf "$results.tar.gz" "$(basename "$results")"
echo "Results: $results, $results.tar.gz"
# One line, the last.
paste -sd ';' "$results/summary.txt" | sed 's/;/; /g'
[ ${#failed[@]} = 0 ]
