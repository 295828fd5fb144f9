#!/usr/bin/env bash
# AlexNet-32 on two machines and a cable of 1 Gb/s: README's table, and the first of docs/performance.md. As root, from the
# project's folder, with a Python that has torch in LACONIC_PYTHON; eight minutes.
export LACONIC_NET_BURST=150kb
python3 tests/netns/compare_ddp.py build/apps --model alexnet-32 --batch 16 --ranks 2 --rate 1gbit --steps 12 --warmup 4 --turns 3 --hook none,fp16,powersgd --markdown \
  --vs "dense: --sync allreduce" --vs "dense, 16 bits: --codec bf16" --vs "relative bound 2^0, feedback: --codec inceptionn:rel:2^0 --codec-feedback" \
  --vs "RGC 1 %, no mask: --sync redsync --density 0.01 --no-mask"
