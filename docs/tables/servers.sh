#!/usr/bin/env bash
# Parameter servers on cables of 1 Gb/s: the tables "On cables" of docs/papers/slim-dp.md. As root, from the project's
# folder; ten minutes.
set -euo pipefail
python3 tests/netns/compare_ddp.py build/apps --model alexnet-32,vgg16-32,resnet20 --batch 32 --rate 1gbit --servers 1 --hook= --steps 8 --warmup 3 --turns 1 --markdown \
  --vs "dense: --sync ps" --vs "dense, 16 bits: --sync ps --codec bf16" --vs "Slim-DP 0.2, 0.1: --sync slimdp --alpha 0.2 --explore 0.1" \
  --vs "Slim-DP 0.3, 0.15: --sync slimdp" --vs "Slim-DP 0.2, 0.1, keys sent: --sync slimdp --alpha 0.2 --explore 0.1 --explorer-keys sent" \
  --vs "Slim-DP 0.3, 0.15, keys sent: --sync slimdp --explorer-keys sent" --vs "Quant-DP: --sync ps --codec qsgd:8:512" \
  --vs "layer dropping 0.97: --sync layerdrop --drop-ratio 0.97" --vs "layer dropping 0.97, rows: --sync layerdrop --drop-ratio 0.97 --layerdrop-unit rows"
