#!/usr/bin/env bash
# Parameter servers on cables: the tables "On cables" of docs/papers/slim-dp.md and docs/papers/layer-dropping.md, and
# ResNet-50 of docs/figures/servers.csv. As root, from the project's folder; three quarters of an hour.
set -euo pipefail
export LACONIC_NET_BURST=150kb
measure() {
  python3 tests/netns/compare_ddp.py build/apps --hook= --turns 1 --markdown "$@"
}
measure --model alexnet-32,vgg16-32,resnet20 --batch 32 --rate 1gbit --servers 1 --steps 12 --warmup 3 \
  --vs "dense: --sync ps" --vs "dense, 16 bits: --sync ps --codec bf16" --vs "Slim-DP 0.2, 0.1: --sync slimdp --alpha 0.2 --explore 0.1" \
  --vs "Slim-DP 0.3, 0.15: --sync slimdp" --vs "Slim-DP 0.2, 0.1, keys sent: --sync slimdp --alpha 0.2 --explore 0.1 --explorer-keys sent" \
  --vs "Slim-DP 0.3, 0.15, keys sent: --sync slimdp --explorer-keys sent" --vs "Quant-DP: --sync ps --codec qsgd:8:512"
# At R = 0.97 a layer may travel as seldom as every 33 steps: that many are timed.
dropping=(--vs "layer dropping 0.97: --sync layerdrop --drop-ratio 0.97" --vs "layer dropping 0.97, rows: --sync layerdrop --drop-ratio 0.97 --layerdrop-unit rows"
  --vs "layer dropping 0.9, rows: --sync layerdrop --drop-ratio 0.9 --layerdrop-unit rows")
measure --model alexnet-32,vgg16-32,resnet20 --batch 32 --rate 1gbit --servers 1 --steps 33 --warmup 17 --vs "dense: --sync ps" "${dropping[@]}"
measure --model resnet20 --batch 32 --rate 160mbit --servers 1 --steps 33 --warmup 17 --vs "dense: --sync ps" "${dropping[@]}" \
  --vs "layer dropping 0.5: --sync layerdrop --drop-ratio 0.5" --vs "layer dropping 0.9: --sync layerdrop --drop-ratio 0.9" \
  --vs "Slim-DP 0.2, 0.1: --sync slimdp --alpha 0.2 --explore 0.1" --vs "Slim-DP 0.3, 0.15: --sync slimdp"
for overlap in none forward; do
  measure --model resnet44 --batch 32 --rate 60mbit --servers 1 --steps 33 --warmup 17 --vs "dense, overlap $overlap: --sync ps --overlap $overlap" \
    --vs "layer dropping 0.97, overlap $overlap: --sync layerdrop --drop-ratio 0.97 --overlap $overlap" \
    --vs "layer dropping 0.99, overlap $overlap: --sync layerdrop --drop-ratio 0.99 --overlap $overlap"
done
measure --model alexnet-32 --batch 32 --rate 1gbit --servers 1 --steps 12 --warmup 4 --vs "dense, sharded: --servers colocated --sync ps" \
  --vs "layer dropping 0.97, sharded: --servers colocated --sync layerdrop --drop-ratio 0.97" \
  --vs "layer dropping 0.97, rows, sharded: --servers colocated --sync layerdrop --drop-ratio 0.97 --layerdrop-unit rows" \
  --vs "Slim-DP 0.2, 0.1, sharded: --servers colocated --sync slimdp --alpha 0.2 --explore 0.1" \
  --vs "Quant-DP, sharded: --servers colocated --sync ps --codec qsgd:8:512"
measure --model resnet50 --batch 4 --rate 1gbit --servers 1 --steps 12 --warmup 4 --vs "dense: --sync ps" \
  --vs "layer dropping 0.97: --sync layerdrop --drop-ratio 0.97" --vs "layer dropping 0.97, rows: --sync layerdrop --drop-ratio 0.97 --layerdrop-unit rows"
