#!/usr/bin/env bash
# What a checkpoint costs a training: workers of 32 images, a checkpoint every 60 steps, against none. From the project's folder:
#
#   bash docs/tables/save-cost.sh [MODELS [TURNS [WORKERS]]] [options of cifar10]
#
# MODELS is one word or several in quotes (resnet20 and alexnet-32 if it is empty). Turns alternate; the table has the medians of their means.
# WORKERS: 2 without it, each with one thread.
set -euo pipefail
models=${1:-resnet20 alexnet-32}
turns=${2:-5} workers=${3:-2}
shift $(($# < 3 ? $# : 3))
steps=260
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

printf '| model | files, MB | ms a step | with saves | ms a save |\n|---|---:|---:|---:|---:|\n'
for model in $models; do
  for turn in $(seq "$turns"); do
    for every in 1000000it 60it; do
      rm -rf "$folder/save"
      build/apps/cifar10 --data synthetic:20000,20 --model "$model" --workers "$workers" --threads 1 --batch 32 --momentum 0.9 --lr 0.001 \
        --no-augment --steps "$steps" --log "$folder/$model-$every-$turn.jsonl" --save "$folder/save" --save-every "$every" --quiet "$@" > /dev/null
    done
  done
  python3 - "$folder" "$model" "$turns" "$steps" <<'PYTHON'
import json, pathlib, statistics, sys
folder, model, turns, steps = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
def ms_a_step(every):
    seconds = []
    for turn in range(1, turns + 1):
        lines = [json.loads(line) for line in open(folder / f'{model}-{every}-{turn}.jsonl')]
        first = sum(line['step_ms'] for line in lines if 0 < line.get('step', 99) <= 10) / 1e3  # caches fill
        seconds.append(next(line['eval']['seconds'] for line in lines if 'eval' in line) - first)
    return 1e3 * statistics.median(seconds) / (steps - 10)
plain, saved = ms_a_step('1000000it'), ms_a_step('60it')
size = max(sum(f.stat().st_size for f in c.iterdir()) for c in (folder / 'save').glob('checkpoint-*'))
print(f'| {model} | {size / 1e6:.1f} | {plain:.1f} | {saved:.1f} | {(saved - plain) * (steps - 10) / ((steps - 1) // 60):.0f} |')
PYTHON
done
