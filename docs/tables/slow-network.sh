#!/usr/bin/env bash
# AlexNet-32 on two machines and a cable of 1 Gb/s: the tables of README and of docs/performance.md, Methods on a slow network. As root, from the
# project's folder, with a Python that has torch in LACONIC_PYTHON; a quarter of an hour.
set -euo pipefail
measure() { python3 tests/netns/compare_ddp.py build/apps --model alexnet-32 --ranks 2 --rate 1gbit --steps 12 --warmup 4 --markdown "$@"; }
measure --batch 16 --turns 3 --hook none,fp16,powersgd \
  --vs "dense: --sync allreduce" --vs "dense, 16 bits: --codec bf16" --vs "relative bound 2^0, feedback: --codec inceptionn:rel:2^0 --codec-feedback" \
  --vs "RGC 1 %, no mask: --sync redsync --density 0.01 --no-mask" \
  --vs "PowerSGD, rank 1: --sync powersgd --rank 1" --vs "PowerSGD, rank 2: --sync powersgd --rank 2"
measure --batch 8 --turns 7 --hook= --vs "dense: --sync allreduce" --vs "relative bound 2^0, feedback: --codec inceptionn:rel:2^0 --codec-feedback"
