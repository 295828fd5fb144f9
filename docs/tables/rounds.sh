#!/usr/bin/env bash
# Rounds of own steps beside methods that send in every step, on one axis of time, four workers on an emulated link (docs/rounds.md).
# From the project's folder:
#
#   bash docs/tables/rounds.sh MODEL RATE DATA KEEP [options of compare]
#
# MODEL: lenet (DATA: Fashion-MNIST), resnet20 (CIFAR-10), lstm-small (the Penn Treebank) or gpt (a text, as tinyshakespeare's). RATE:
# 10mbit, 100mbit or 1gbit. KEEP holds what was learned, which does not depend on the rate: a second call only times steps.
set -euo pipefail
longer="" rank=2 loco="" demo="" far=""
model=${1:?MODEL} rate=${2:?RATE} data=${3:?DATA} keep=${4:?KEEP}
shift 4
# Each method with the optimiser that it was published with; rates of AdamW and DeMo are the best of a short search. The LSTM learns far better
# by SGD, so rounds have SGD there too, and DeMo, whose step takes five times as long, is left out.
case $model in
  lenet)
    app=mnist common="--model lenet --batch 16 --epochs 10 --schedule warmup:1+cosine" warm="--warmup dense:1"
    sgd="--momentum 0.9 --nesterov --weight-decay 5e-4 --lr 0.05" adam="--optimizer adamw --weight-decay 0.05 --lr 0.003" demo="--lr 0.003" ;;
  resnet20)
    app=cifar10 common="--model resnet20 --batch 32 --epochs 5 --schedule warmup:1+cosine" warm="--warmup dense:1"
    sgd="--momentum 0.9 --nesterov --weight-decay 5e-4 --lr 0.2" adam="--optimizer adamw --weight-decay 0.05 --lr 0.02" demo="--lr 0.01"
    far="--optimizer adamw --weight-decay 0.05 --lr 0.005" ;;  # for DiLoCo, which goes too far at dense's rate
  lstm-small)
    app=ptb common="--model lstm-small --batch 5 --epochs 2 --schedule cosine" warm=""
    sgd="--lr 20" adam="--optimizer adamw --lr 0.003 --clip norm:1" ;;
  gpt)  # what loses something trains for twice as many steps, to a loss as good
    app=gpt common="--model gpt-4x128 --batch 3 --epochs 10 --epoch-steps 200" warm="" sgd="" adam="" longer="--epochs 20" rank=4 loco="--lr 0.002" demo="--optimizer sgd --clip none" ;;
  *) echo "rounds: no model $model here" >&2 && exit 2 ;;
esac
# RedSync corrects the momentum of SGD; with Adam residuals alone do.
case $model in gpt) chosen="top-k" sparse="--sync topk --density 0.01 --dense-below 16KiB" ;; *) chosen="RedSync" sparse="--sync redsync --density 0.01 --no-mask" ;; esac
sets=(--vs "dense: $sgd" --vs "dense, 16 bits: $sgd --codec bf16" --vs "5 bits: $sgd --codec groupq:5:32"
  --vs "$chosen, 1 %: $sgd $sparse $warm $longer" --vs "PowerSGD, rank $rank: $sgd --sync powersgd --rank $rank $warm $longer")
[ -z "$demo" ] || sets+=(--vs "DeMo: --sync demo --momentum 0 $demo $longer")
[ "$model" = gpt ] || sets+=(--vs "dense, AdamW: $adam" --vs "local SGD: $sgd --sync rounds --every 16 $warm")
diloco="${far:-$adam} --sync rounds --every 16 --outer nesterov"
if [ "$model" = lstm-small ]; then
  adam=$sgd
  sets+=(--vs "local SGD, H = 4: $sgd --sync rounds --every 4")
else
  sets+=(--vs "DiLoCo: $diloco" --vs "Streaming DiLoCo: $diloco --fragments 4 --delay 3 --mix 0")
fi
sets+=(--vs "SparseLoCo, 3 %: $adam $loco --sync rounds --every 16 --density 0.03 $longer"
  --vs "NoLoCo: $adam --sync rounds --every 16 --pairs --outer momentum $longer")
build/apps/laconic compare "$app" --data "$data" --workers 4 --threads 1 --link "$rate,1ms" $common --keep "$keep" --learn 33 --markdown \
  "${sets[@]}" "$@"
