#!/usr/bin/env bash
# Ways of exchanging layer by layer: the first table of docs/papers/hybrid-allreduce.md. As root, from the project's
# folder, with a Python that has torch in LACONIC_PYTHON; a quarter of an hour.
export LACONIC_NET_BURST=150kb
python3 tests/netns/compare_ddp.py build/apps --model alexnet-32 --batch 32 --rate 1gbit --ranks 4 --steps 8 --warmup 4 --turns 2 --hook none,fp16 --markdown \
  --vs "after backward: --overlap none" --vs "ring: --fusion none" --vs "butterfly: --fusion none --allreduce butterfly --chunk none" \
  --vs "hybrid: --fusion none --allreduce hybrid" --vs "hybrid-printed: --fusion none --allreduce hybrid-printed" \
  --vs "copied, 64 MiB: --fusion copy:64MiB --overlap backward --chunk none" --vs "lazy, 1 MiB: --fusion lazy:1MiB"
