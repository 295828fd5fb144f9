#!/usr/bin/env bash
# Steps that are simulated from one log, against measured ones: the table of docs/simulate.md. As root, from the project's folder;
# ten minutes.
export LACONIC_NET_BURST=150kb
python3 tests/netns/compare_simulated.py build/apps --markdown --model lenet,resnet20,alexnet-32 --batch 16 --rate 1gbit,100mbit --ranks 2 --steps 8 --turns 3 \
  --vs "dense: --sync allreduce" --vs "dense, 16 bits: --codec bf16" --vs "relative bound 2^0: --codec inceptionn:rel:2^0" \
  --vs "RedSync 1 %, no mask: --sync redsync --density 0.01 --no-mask" --vs "a server's half on each: --sync ps --servers colocated"
