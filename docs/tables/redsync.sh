#!/usr/bin/env bash
# A step of RedSync on cables of 1 Gb/s beside PyTorch's: the first table of "Measured" in docs/papers/redsync.md. As root,
# from the project's folder, with a Python that has torch in LACONIC_PYTHON.
set -euo pipefail
export LACONIC_NET_BURST=150kb
for model in alexnet-32 vgg16-32; do
  python3 tests/netns/compare_ddp.py build/apps --markdown --model $model --batch 32 --rate 1gbit --steps 6 --warmup 4 --turns 2 \
    --hook none,fp16,powersgd --vs "dense: --sync allreduce" --vs "dense, 16 bits: --codec bf16" \
    --vs "RGC 1 %, no mask: --sync redsync --density 0.01 --no-mask" --vs "qRGC 1 %, no mask: --sync redsync --density 0.01 --no-mask --qrgc" \
    --vs "RGC: --sync redsync" --vs "qRGC, delta: --sync redsync --qrgc --index-coding delta" --vs "RGC, radix: --sync redsync --selector radix"
done
