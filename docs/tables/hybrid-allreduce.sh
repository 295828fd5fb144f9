#!/usr/bin/env bash
# Ways of exchanging layer by layer: the tables of docs/papers/hybrid-allreduce.md. As root, from the project's folder, with
# a Python that has torch in LACONIC_PYTHON; an hour.
set -euo pipefail
export LACONIC_NET_BURST=150kb
measure() {
  python3 tests/netns/compare_ddp.py build/apps --markdown "$@"
}
ways=(--vs "after backward: --overlap none" --vs "ring for each layer: --fusion none"
  --vs "butterfly for each layer: --fusion none --allreduce butterfly --chunk none"
  --vs "hybrid: --fusion none --allreduce hybrid" --vs "hybrid as printed: --fusion none --allreduce hybrid-printed"
  --vs "fusion by copy, 64 MiB, during backward: --fusion copy:64MiB --overlap backward --chunk none"
  --vs "fusion without a copy, 1 MiB (default): --fusion lazy:1MiB")
measure --model alexnet-32 --batch 32 --rate 1gbit --ranks 4 --steps 8 --warmup 4 --turns 2 --hook none,fp16 "${ways[@]}"
measure --model alexnet --batch 32 --rate 1gbit --ranks 4 --steps 2 --warmup 1 --turns 1 --hook none "${ways[@]}"
measure --model alexnet-32 --batch 32 --rate 1gbit --ranks 2 --steps 8 --warmup 4 --turns 2 --hook= "${ways[@]}"
measure --model alexnet-32 --batch 32 --rate 100mbit --ranks 4 --steps 2 --warmup 1 --turns 1 --hook= "${ways[@]}"
measure --model alexnet-32 --batch 128,256,512 --total --steps 6 --warmup 3 --turns 3 --overlaps none,forward
measure --model resnet20,resnet44 --batch 32 --steps 20 --turns 3 --overlaps none,forward
