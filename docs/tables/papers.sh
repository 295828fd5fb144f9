#!/usr/bin/env bash
# A table of each of the five papers, made again; the paper's own figure stands behind a set's name. From the project's folder:
#
#   bash docs/tables/papers.sh [PAPER [SCALE]] [options of compare]
#
# PAPER is redsync, layer-dropping, hybrid-allreduce, slim-dp, inceptionn or all. SCALE small, as without one, trains small models for
# some steps or epochs on data that Debian has: a quarter of an hour for all five on two cores. SCALE full takes models and epochs of the
# paper's kind, which last for hours to weeks; --data says where its data lies. Times are of threads on an emulated link, in one turn with
# one seed: they show which way figures point. docs/papers has what differs, and what was measured with intervals.
set -euo pipefail
wanted=${1:-all} scale=${2:-small}
shift $(($# < 2 ? $# : 2))
case $wanted in all | redsync | layer-dropping | hybrid-allreduce | slim-dp | inceptionn) ;; *) echo "there is no paper $wanted" >&2 && exit 2 ;; esac
case $scale in small | full) ;; *) echo "there is no scale $scale" >&2 && exit 2 ;; esac
wants() { [[ $wanted = all || $wanted = "$1" ]] && printf '\n%s\n\n' "$2"; }
small() { [ "$scale" = small ]; }
more=("$@")
table() { "${LACONIC:-build/apps/laconic}" compare "$@" --no-bound --markdown "${more[@]}"; }

if wants redsync "Test error after equal epochs: ResNet-44 on CIFAR-10, 4 workers of 64 images (Fang et al. 2018, who send 0.1 %)"; then
  sets=(--vs "SGD, paper 7.48 %: " --vs "RGC, paper 7.17 %: --sync redsync --density 0.01 --no-mask --warmup dense:1"
    --vs "qRGC, paper 7.87 %: --sync redsync --density 0.01 --no-mask --warmup dense:1 --qrgc")
  if small; then
    table mnist --model lenet --workers 4 --threads 1 --batch 16 --epochs 3 --lr 0.05 --momentum 0.9 --nesterov --weight-decay 5e-4 \
      --schedule warmup:1+cosine --link 100mbit,1ms "${sets[@]}"
  else
    table cifar10 --model resnet44 --workers 4 --threads 1 --batch 64 --epochs 60 --lr 0.2 --momentum 0.9 --nesterov \
      --weight-decay 5e-4 --schedule warmup:2+cosine --link 1gbit,50us "${sets[@]}"
  fi
fi

if wants layer-dropping "Seconds of an iteration with a server, at 1 Gb/s: ResNet-50 on ImageNet (Table 1). No drop ratio is printed"; then
  sets=(--vs "without, paper 3.918 s: --sync ps"
    --vs "with layer dropping, paper 0.675 s: --sync layerdrop --layerdrop-unit rows --drop-ratio 0.97")
  if small; then
    table mnist --model lenet --workers 2 --servers 1 --threads 1 --batch 32 --epochs 1 --lr 0.05 --momentum 0.9 --nesterov \
      --schedule cosine --link 50mbit,1ms "${sets[@]}"
  else
    table imagenet --model resnet50 --workers 4 --servers 1 --batch 32 --epochs 90 --link 1gbit,50us "${sets[@]}"
  fi
fi

if wants hybrid-allreduce "Time of training AlexNet on CIFAR-10, 4 nodes, 1 Gb/s (section 4); the paper's ratios are to PyTorch"; then
  sets=(--vs "rings after backward: --allreduce ring --overlap none" --vs "rings, overlapped: --allreduce ring"
    --vs "hybrid, overlapped, paper 0.92 … 0.67: --allreduce hybrid")
  if small; then
    table cifar10 --model alexnet-32 --data synthetic:3840,16 --workers 4 --threads 1 --batch 32 --steps 6 --lr 0.01 --eval-every 0 \
      --link 1gbit,50us "${sets[@]}"
  else
    table cifar10 --model alexnet-32 --workers 4 --threads 1 --batch 128 --epochs 100 --lr 0.04 --momentum 0.9 --link 1gbit,50us \
      "${sets[@]}"
  fi
fi

if wants slim-dp "Communication time that is saved, 4 workers: GoogLeNet and VGG-16 on ImageNet (Table 2); Slim-DP sums, so its rate is halved"; then
  sets=(--vs "Plump-DP: --sync ps" --vs "Quant-DP, paper 47.85 and 63.05 %: --sync ps --codec qsgd:8:512"
    --vs "Slim-DP, paper 55.12 and 71.15 %: --sync slimdp --alpha 0.3 --explore 0.15 --reduce sum --lr 0.025")
  if small; then
    table mnist --model lenet --workers 4 --servers 1 --threads 1 --batch 16 --epochs 1 --lr 0.05 --momentum 0.9 --nesterov \
      --weight-decay 5e-4 --schedule cosine --link 100mbit,1ms "${sets[@]}"
  else
    table cifar10 --model resnet20 --workers 4 --servers 1 --threads 1 --batch 32 --epochs 30 --lr 0.05 --momentum 0.9 --nesterov \
      --weight-decay 5e-4 --schedule warmup:1+cosine --link 100mbit,1ms "${sets[@]}"
  fi
fi

if wants inceptionn "Communication time that four systems save: HDC and three CNNs, 10 Gb/s (Figure 12); here the codec runs on the processor"; then
  sets=(--vs "WA: --preset WA" --vs "WA+C, paper 30.8 %: --preset WA+C" --vs "INC, paper 36 … 58 %: --preset INC"
    --vs "INC+C, paper 70.9 … 80.7 %: --preset INC+C")
  if small; then
    table mnist --model hdc --workers 4 --threads 1 --batch 25 --steps 300 --lr 0.05 --momentum 0.9 --weight-decay 5e-5 \
      --link 500mbit,50us "${sets[@]}"
  else
    table mnist --preset inceptionn-hdc --workers 4 --threads 1 --link 1gbit,50us "${sets[@]}"
  fi
fi
