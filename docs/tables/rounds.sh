#!/usr/bin/env bash
# Rounds of own steps beside other methods, on one axis of time, four workers on a link of 100 Mb/s (docs/rounds.md). From
# the project's folder:
#
#   bash docs/tables/rounds.sh MODEL DATA KEEP [options of compare]
#
# MODEL: lenet (DATA: Fashion-MNIST), resnet20 (CIFAR-10) or gpt (a text, as tinyshakespeare's). KEEP holds what was learned: a second call only times steps.
set -euo pipefail
model=${1:?MODEL} data=${2:?DATA} keep=${3:?KEEP}
shift 3
momentum="--momentum 0.9 --nesterov --weight-decay 5e-4 --schedule warmup:1+cosine"
redsync="--sync redsync --density 0.01 --no-mask"  # corrects the momentum of SGD; with Adam residuals alone do
case $model in
  lenet) app=mnist common="--model lenet --batch 16 --epochs 10 --lr 0.05 $momentum" dense="--warmup dense:1" ;;
  resnet20) app=cifar10 common="--model resnet20 --batch 32 --epochs 5 --lr 0.2 $momentum" dense="--warmup dense:1" ;;
  gpt) app=gpt common="--model gpt-4x128 --batch 3" dense="" redsync="--sync topk --density 0.01" ;;
  *) echo "rounds: no model $model here" >&2 && exit 2 ;;
esac
build/apps/laconic compare "$app" --data "$data" --workers 4 --threads 1 --link 100mbit,1ms $common --keep "$keep" --learn 20 --markdown \
  --vs "dense: --sync allreduce" --vs "dense, 16 bits: --codec bf16" \
  --vs "RedSync 1 %: $redsync $dense" \
  --vs "PowerSGD, rank 2: --sync powersgd --rank 2 $dense" \
  --vs "local SGD, 16 steps: --sync rounds --every 16 $dense" \
  --vs "DiLoCo, 16 steps: --sync rounds --every 16 --outer nesterov $dense" \
  --vs "Streaming DiLoCo: --sync rounds --every 16 --outer nesterov --fragments 4 --delay 3 $dense" \
  --vs "SparseLoCo, 3 %, 16 steps: --sync rounds --every 16 --density 0.03 $dense" "$@"
