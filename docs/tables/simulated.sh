#!/usr/bin/env bash
# Steps that are simulated from one log, against measured ones: the tables of docs/simulate.md. As root, from the project's folder;
# six minutes. After a pause a cable lets its bucket pass at full speed, so models that send less than that are left out.
measure() {
  python3 tests/netns/compare_simulated.py build/apps --markdown --batch 16 --ranks 2 "$@" \
    --vs "dense: --sync allreduce" --vs "dense, 16 bits: --codec bf16" --vs "relative bound 2^0: --codec inceptionn:rel:2^0" \
    --vs "RedSync 1 %, no mask: --sync redsync --density 0.01 --no-mask" --vs "half a server on each: --sync ps --servers colocated"
}
export LACONIC_NET_BURST=150kb
measure --model resnet20,alexnet-32 --rate 1gbit --steps 8 --turns 3
measure --model alexnet-32 --rate 100mbit --steps 2 --warmup 1 --turns 1
