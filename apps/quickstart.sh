#!/bin/bash
# From a fresh clone to a trained network: installs what is missing, builds, and lets four workers train LeNet-5 on
# Fashion-MNIST together. Options given here go to the program:  bash apps/quickstart.sh --epochs 3
set -u
cd "$(dirname "$0")/.." || exit 1
unset ${!OPENBLAS_@} ${!OMP_@}

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
  echo "Building (a few minutes the first time) ..."
  if [ -t 1 ]; then ninja -C "$build" apps/mnist apps/laconic || exit 1
  else quietly ninja -C "$build" apps/mnist apps/laconic
  fi
fi

data=/usr/share/datasets/fashion-mnist
if [ ! -f $data/train-images-idx3-ubyte.gz ]; then
  echo "Fashion-MNIST is not here (Debian package dataset-fashion-mnist): synthetic images stand in."
  data=synthetic
fi
echo "Four workers train LeNet-5 together; each holds a quarter of every batch, and they exchange gradients."
"$build/apps/mnist" --model lenet --data $data --workers 4 --batch 16 --epochs 10 --optimizer sgd --lr 0.05 \
  --momentum 0.9 --weight-decay 5e-4 --schedule cosine --log "$build/quickstart.jsonl" "$@" || exit
echo
echo "Every step is a line of JSON in $build/quickstart.jsonl. More to try:"
echo "  $build/apps/mnist --help"
echo "  $build/apps/laconic launch -n 4 mnist --epochs 1      the same workers as processes, over MPI"
