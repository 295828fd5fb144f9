#!/usr/bin/env bash
# INCEPTIONN's four systems on cables: the tables "End to end" and "Compressing in software" of docs/papers/inceptionn.md.
# As root, from the project's folder; twenty minutes.
set -euo pipefail
export LACONIC_NET_BURST=150kb
measure() {
  python3 tests/netns/compare_ddp.py build/apps --phases --hook= --markdown "$@"
}
systems=(--vs "WA: --sync ps --servers 1" --vs "WA+C: --sync ps --servers 1 --codec inceptionn:2^-10" --vs "INC: --sync allreduce"
  --vs "INC+C: --sync allreduce --codec inceptionn:2^-10")
relative=(--vs "WA: --sync ps --servers 1" --vs "WA+C: --sync ps --servers 1 --codec inceptionn:rel:2^0 --codec-feedback" --vs "INC: --sync allreduce"
  --vs "INC+C: --sync allreduce --codec inceptionn:rel:2^0 --codec-feedback")
for workers in 4 6 8; do
  measure --model hdc --batch 25 --rate 1gbit --ranks $workers --steps 40 --warmup 11 --turns 2 "${systems[@]}"
done
measure --model resnet20 --batch 32 --rate 1gbit,160mbit --steps 20 --warmup 5 --turns 2 "${relative[@]}"
measure --model vgg16-32,alexnet-32 --batch 32 --rate 1gbit --steps 6 --warmup 3 --turns 1 "${relative[@]}"
measure --model alexnet-32 --batch 32 --rate 1gbit --steps 6 --warmup 3 --turns 1 \
  --vs "no codec: --sync allreduce" --vs "snappy: --codec snappy" --vs "lz4: --codec lz4" --vs "trunc 16: --codec trunc:16" --vs "fp16: --codec fp16" \
  --vs "QSGD 8 bit: --codec qsgd:8:512" --vs "INCEPTIONN 2^-10: --codec inceptionn:2^-10" \
  --vs "INCEPTIONN rel 2^0: --codec inceptionn:rel:2^0"
