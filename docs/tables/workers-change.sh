#!/usr/bin/env bash
# What it costs to go on with other workers: 12 times 100 steps of LeNet with 4 and 3 workers in turns, resumed, against the same with
# nothing kept but the weights (--init), and against 4 workers that go on. Each with its end accuracy on Fashion-MNIST's test images
# (Debian: dataset-fashion-mnist): means of three seeds and their standard errors, the difference by pairs. From the project's folder:
#
#   bash docs/tables/workers-change.sh [SETS]
#
# SETS: one word or several in quotes of the names below; all of them without it.
set -euo pipefail
declare -A options=(
  [dense]="--sync allreduce"
  [redsync]="--sync redsync --density 0.001 --dense-below 1KiB --no-mask"
  [onebit]="--codec onebit"
  [powersgd]="--sync powersgd --rank 1"
  [layerdrop]="--sync layerdrop --drop-ratio 0.9"
  [rounds]="--sync rounds --every 16"
)
sets=${1:-dense redsync onebit powersgd layerdrop rounds}
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
common="--threads 1 --batch 16 --lr 0.005 --momentum 0.9 --schedule const --eval-every 0 --quiet"

segments() {  # of a training: its name, seed, what is kept, the first and the second number of workers, options
  local name=$1 seed=$2 kept=$3 turns=("$4" "$5") save=$folder/$1
  shift 5
  for ((i = 1; i <= 12; ++i)); do
    local workers=${turns[$(((i - 1) % 2))]} begin=""
    if [ "$kept" = all ]; then
      [ "$i" = 1 ] || begin=--resume
      build/apps/mnist $common --workers "$workers" --seed "$seed" --steps $((100 * i)) --save "$save" $begin "$@" 2>> "$folder/notes" > /dev/null
    else  # other images each time, as the place in the data is lost too
      [ "$i" = 1 ] || begin="--init $save/weights.safetensors"
      build/apps/mnist $common --workers "$workers" --seed $((100 * (i - 1) + seed)) --steps 100 --save "$save" --overwrite $begin "$@" 2>> "$folder/notes" > /dev/null
    fi
  done
  build/apps/mnist --eval-only --init "$save/weights.safetensors" --json | tail -n 1
}

printf '| | 4 workers | 4 and 3 in turns, resumed | with the weights alone | resumed less alone |\n|---|---|---|---|---|\n'
for set in $sets; do
  for seed in 0 1 2; do
    segments "$set-4-$seed" "$seed" all 4 4 ${options[$set]} > "$folder/$set-a-$seed"
    segments "$set-43-$seed" "$seed" all 4 3 ${options[$set]} > "$folder/$set-b-$seed"
    segments "$set-reset-$seed" "$seed" weights 4 3 ${options[$set]} > "$folder/$set-c-$seed"
  done
  python3 - "$set" "$folder" <<'PYTHON'
import json, pathlib, statistics, sys
name, folder = sys.argv[1], pathlib.Path(sys.argv[2])
seeds = (0, 1, 2)
def accuracy(way):
    return [100 - json.loads((folder / f'{name}-{way}-{seed}').read_text())['eval']['top1_error'] for seed in seeds]
def told(values):
    return f'{statistics.mean(values):.2f} ± {statistics.stdev(values) / len(values) ** 0.5:.2f}'
a, b, c = map(accuracy, 'abc')
print(f'| {name} | {told(a)} | {told(b)} | {told(c)} | {told([x - y for x, y in zip(b, c)])} |', flush=True)
PYTHON
done
