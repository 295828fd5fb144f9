#!/usr/bin/env bash
# Steps that are simulated from one log, against measured ones: the table of docs/simulate.md. As root, from the project's folder;
# a quarter of an hour. A first step of a method touches new memory, so ten do not count where a step is short enough.
set -euo pipefail
python3 tests/netns/compare_simulated.py build/apps --markdown --batch 16 \
  --case lenet,100mbit,2,40,10,3 --case lenet,100mbit,4,40,10,3 --case lenet,100mbit,8,40,10,3 --case lenet,10mbit,2,20,10,2 \
  --case resnet20,1gbit,2,20,10,3 --case resnet20,1gbit,4,20,10,3 --case resnet20,100mbit,2,20,10,3 --case resnet20,100mbit,4,15,10,2 \
  --case alexnet-32,1gbit,2,8,10,3 --case alexnet-32,100mbit,2,5,4,1 \
  --vs "dense: --sync allreduce" --vs "dense, 16 bits: --codec bf16" --vs "relative bound 2^0: --codec inceptionn:rel:2^0" \
  --vs "RedSync 1 %, no mask: --sync redsync --density 0.01 --no-mask" --vs "dense, each rank serves a part: --sync ps --servers colocated"
