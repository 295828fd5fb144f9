#!/usr/bin/env bash
# Time to accuracy on a slow network (docs/compare.md), of every method beside PyTorch's. As root, from the project's
# folder, with a Python that has torch in LACONIC_PYTHON:
#
#   bash docs/tables/time-to-accuracy.sh MODEL RATE DATA KEEP [options of compare]
#
# MODEL: lenet (DATA: Fashion-MNIST), resnet20 or alexnet-32 (CIFAR-10), vgg16-32 (CIFAR-10's data_batch_1.bin and
# test_batch.bin alone, for it computes for long), lstm-small (the Penn Treebank); alexnet-32-of-two is README's table:
# two workers, and a core for each. RATE: 1gbit or 100mbit. KEEP holds what was learned, which does not depend on the rate:
# a second call only times its steps. One seed; `--repeat 3` at the end gives three.
set -euo pipefail
name=${1:?MODEL} rate=${2:?RATE} data=${3:?DATA} keep=${4:?KEEP}
shift 4
model=${name%-of-two} workers=4
rows=256KiB  # of layer dropping's layers: LeNet's largest has 188
case $name in
  lenet) app=mnist lr=0.05 rows=8KiB common=(--batch 16 --epochs 10 --momentum 0.9 --nesterov --weight-decay 5e-4) ;;
  resnet20) app=cifar10 lr=0.2 common=(--batch 32 --epochs 5 --momentum 0.9 --nesterov --weight-decay 5e-4) ;;
  alexnet-32) app=cifar10 lr=0.04 common=(--batch 32 --epochs 5 --momentum 0.9 --nesterov --weight-decay 5e-4) ;;
  alexnet-32-of-two) app=cifar10 lr=0.01 workers=2 common=(--batch 16 --epochs 3 --momentum 0.9 --nesterov --weight-decay 5e-4) ;;
  vgg16-32) app=cifar10 lr=0.04 common=(--batch 16 --epochs 5 --momentum 0.9 --nesterov --weight-decay 5e-4) ;;
  lstm-small) app=ptb lr=20 common=(--batch 5 --epochs 5) ;;
  *) echo "time-to-accuracy: no model $name here" >&2 && exit 2 ;;
esac
redsync="--sync redsync --density 0.01 --no-mask"
peer="${LACONIC_PYTHON:-python3} tests/netns/ddp_train.py"
sets=(--vs "dense: " --vs "dense, 16 bits: --codec bf16" --vs "INC+C, relative bound: --codec inceptionn:rel:2^0 --codec-feedback")
if [ "$app" != ptb ]; then
  common+=(--lr "$lr" --schedule warmup:1+cosine)
  peers=(--peer "DDP: $peer" --peer "DDP, 16 bits: $peer --hook fp16")
fi
if [ "$workers" = 2 ]; then
  sets+=(--vs "RedSync 1 %: $redsync" --vs "PowerSGD of rank 1: --sync powersgd --rank 1 --warmup dense:1" "${peers[@]}"
    --peer "DDP, PowerSGD of rank 1: $peer --hook powersgd --rank 1 --dense-epochs 1")
else
  sets+=(--vs "RedSync 1 %: $redsync --warmup dense:1" --vs "qRGC 1 %: $redsync --warmup dense:1 --qrgc")
fi
if [ "$app" != ptb ] && [ "$workers" = 4 ]; then
  half=$(awk "BEGIN { print $lr / 2 }")
  sets+=(--vs "Quant-DP: --sync ps --codec qsgd:8:512" --vs "Slim-DP 0.3, 0.15: --sync slimdp --reduce sum --lr $half"
    --vs "layer dropping 0.9: --sync layerdrop --layerdrop-unit rows --chunk $rows --drop-ratio 0.9" "${peers[@]}"
    --peer "DDP, PowerSGD of rank 4: $peer --hook powersgd --rank 4")
fi
tests/netns/netns.sh up 5 "$rate"
trap 'tests/netns/netns.sh down' EXIT
build/apps/laconic compare "$app" --model "$model" --data "$data" --workers $workers --threads 1 "${common[@]}" --keep "$keep" \
  --learn 20 --through "tests/netns/netns.sh run -n {ranks}" --markdown "${sets[@]}" "$@"
