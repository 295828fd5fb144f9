#!/usr/bin/env bash
# What the papers measured, simulated from the times that they state: "The papers' figures" of docs/simulate.md. From the
# project's folder; three minutes. The rate of computing gives the paper's time for forward and backward, and --sum-rate its time for
# adding. An argument stands in place of --markdown: --json prints objects.
set -euo pipefail
form=${1:---markdown}

# INCEPTIONN, Table II and Fig. 12: four workers, with an aggregator or in a ring, 10 Gb/s; a value's bits are those of Table III.
systems() {
  build/apps/laconic simulate $form --link 10gbit,20us --sum-rate 8.3 --overlap none --workers 4 "$@" \
    --vs "WA: --sync ps --servers 1" --vs "WA+C: --sync ps --servers 1 --codec inceptionn:2^-10 --payload-bits $bits --nic inceptionn" \
    --vs "INC: --sync allreduce" --vs "INC+C: --codec inceptionn:2^-10 --payload-bits $bits --nic inceptionn"
}
bits=5.72 && systems --model alexnet --batch 64 --compute gflops:1417
bits=2.76 && systems --model hdc --batch 25 --compute gflops:115
bits=3.51 && systems --model resnet50 --batch 16 --compute gflops:5234
bits=2.86 && systems --model vgg16 --batch 64 --compute gflops:3345
# Fig. 15: up to eight workers.
for model in alexnet hdc resnet50 vgg16; do
  build/apps/laconic simulate $form --link 10gbit,20us --sum-rate 8.3 --overlap none --model $model --workers 4,6,8 --compute gflops:100000 \
    --vs "WA: --sync ps --servers 1" --vs "INC: --sync allreduce"
done

# LayerDrop, Table 1: two GPUs a machine and a server, 1 and 56 Gb/s.
build/apps/laconic simulate $form --model resnet50 --workers 4 --servers 1 --compute gflops:2023 --sum-rate 4.2 --overlap none \
  --link 100gbit,5us --ranks-per-host 2 --link-between 1gbit,100us --vs "without: --sync ps" --vs "with: --sync layerdrop --drop-ratio 0.97"
build/apps/laconic simulate $form --model resnet50 --workers 8 --servers 1 --compute gflops:3537 --sum-rate 14.9 --overlap none \
  --link 100gbit,5us --ranks-per-host 2 --link-between 56gbit,5us --vs "without: --sync ps" --vs "with: --sync layerdrop --drop-ratio 0.97"

# HybridAR, Fig. 4: AlexNet, four nodes, 1 Gb/s; the paper's batches are those of all nodes together. It states no time of computing:
# the rate is the one at which its largest batch saves what it says.
build/apps/laconic simulate $form --model alexnet --workers 4 --link 1gbit,100us --sum-rate 8 --compute gflops:350 --sweep batch=32,48,64,128 \
  --vs "baseline: --overlap none --fusion none" --vs "hybrid: --allreduce hybrid --fusion none"

# RedSync: what each worker sends of AlexNet's gradients. Its rows' times are those of this machine's processor, and tell nothing.
build/apps/laconic simulate $form --model alexnet --workers 2,32,128 --link 100gbit,2us --sum-rate 8 --compute gflops:100000 \
  --vs "dense: --sync allreduce" --vs "RedSync: --sync redsync" --vs "quantised: --sync redsync --qrgc"
