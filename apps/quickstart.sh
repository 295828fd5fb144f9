#!/bin/bash
# From a fresh clone to a trained network: installs what is missing, builds, and lets four workers train LeNet-5 on
# Fashion-MNIST together; then twice over an emulated slow network, to show what overlap saves; then a larger network
# twice, with all gradients and with one in a hundred. Options given here go to the first training:
#   bash apps/quickstart.sh --epochs 3
set -u
cd "$(dirname "$0")/.." || exit 1
unset ${!OPENBLAS_@} ${!OMP_@}
. apps/patience.sh

bash apps/setup.sh || exit 1

build=build log=build/quickstart.log
quietly() {   # runs a command with its output in the log; shows the end of it if the command fails
  "$@" >>"$log" 2>&1 && return
  tail -n 30 "$log" >&2
  echo "This step failed: $*   (all of its output: $log)" >&2
  exit 1
}
mkdir -p "$build" && : >"$log"
[ -f "$build/build.ninja" ] || { echo "Configuring ..."; quietly meson setup "$build"; }
if ! ninja -C "$build" -n apps/mnist apps/laconic 2>/dev/null | grep -q "no work to do"; then
  echo "Building mnist, which trains, and laconic, which has the tools ..."
  build "$build" "$log" apps/mnist apps/laconic || {
    tail -n 30 "$log" >&2
    echo "The build failed; all of its output: $log" >&2
    exit 1
  }
fi

data=/usr/share/datasets/fashion-mnist
if [ ! -f $data/train-images-idx3-ubyte.gz ]; then
  echo "Fashion-MNIST is not here (Debian package dataset-fashion-mnist): synthetic"
  echo "images stand in."
  data=synthetic
fi
echo "Four workers train LeNet-5 together; each holds a quarter of every batch, and"
echo "they exchange gradients."
"$build/apps/mnist" --model lenet --data $data --workers 4 --batch 16 --epochs 10 --optimizer sgd --lr 0.05 \
  --momentum 0.9 --weight-decay 5e-4 --schedule cosine --log "$build/quickstart.jsonl" "$@" || exit
case " $* " in *" --help "* | *" -h "* | *" --version "* | *" --dry-run "*) exit ;; esac

# The second act: a slow network, emulated between the workers. `none` exchanges after the whole backward pass;
# `forward` while the backward pass and the next forward pass run. Figures come from the last line, which is JSON.
echo
echo "Now the same network with larger batches, as if the workers were connected by"
echo "100 Mbit/s (--link 100mbit,1ms):"
for overlap in none forward; do
  beside "  --overlap $overlap trains" \
    "$build/apps/mnist" --model lenet --data $data --workers 4 --batch 256 --epochs 3 --optimizer sgd --lr 0.05 \
    --momentum 0.9 --link 100mbit,1ms --overlap $overlap --fusion lazy:32KiB --trace "$build/overlap-$overlap.json" \
    --save "$build/overlap-$overlap" --overwrite --quiet --json >"$build/overlap-$overlap.out" || exit
done
figure() { tail -n 1 "$build/overlap-$1.out" | sed -n "s/.*\"$2\":\([0-9.e+-]*\).*/\1/p"; }
awk -v s0="$(figure none samples_per_s)" -v s1="$(figure forward samples_per_s)" -v n="$(figure none steps)" \
  -v e0="$(figure none exposed_share)" -v e1="$(figure forward exposed_share)" 'BEGIN {
  t0 = n * 1024 / s0; t1 = n * 1024 / s1
  printf "  --overlap none      %5.1f s for %d steps, %2.0f %% of it spent waiting\n", t0, n, 100 * e0
  printf "  --overlap forward   %5.1f s for %d steps, %2.0f %%\n", t1, n, 100 * e1
  printf "Hiding the exchange behind computing saved %.1f s of %.1f s (%.0f %%).\n", t0 - t1, t0, 100 * (1 - t1 / t0) }'
cmp -s "$build/overlap-none/weights.safetensors" "$build/overlap-forward/weights.safetensors" &&
  echo "The weights are the same to the last bit."
echo "Why: drag $build/overlap-none.json and $build/overlap-forward.json into"
echo "https://ui.perfetto.dev, and see where the messages lie beside the layers."

# The third act: RedSync sends of each large tensor only what has grown large, and keeps the rest for later.
echo
echo "And HDC (2.6 MB of weights) over the same network, with all gradients, and with"
echo "the one in a hundred that has grown largest since it was last sent"
echo "(--sync redsync); half a minute:"
"$build/apps/laconic" compare mnist --model hdc-2.5mb --data $data --workers 4 --batch 256 --epochs 1 \
  --lr 0.05 --link 100mbit,1ms --no-bound --target-accuracy 75 --vs "all: --sync allreduce" \
  --vs "RedSync: --sync redsync --density 0.01" --vs "four epochs of it: --sync redsync --density 0.01 --epochs 4" || exit
echo
echo "Every step is a line of JSON in $build/quickstart.jsonl. More to try:"
echo "  $build/apps/mnist --help"
echo "  $build/apps/laconic launch -n 4 mnist --epochs 1    the same over MPI"
