#!/usr/bin/env bash
# Is --plan auto as fast as the best fixed choice? One table for each model, rate, number of workers and allowance; --plan auto is the
# first set of each, so that the others' ratios are paired with it. As root, from the project's folder:
#
#   bash docs/tables/auto.sh [MODELS [RATES [NUMBERS [ALLOWANCES]]]] [options of compare]
#
# Each is one word or several in quotes; "all" or nothing is all of them: lenet, hdc, resnet20, alexnet-32, vgg16-32, lstm-650; none
# (as fast as the machine can), 1gbit, 500mbit, 100mbit, 10mbit; 2, 4; exact, 16bit, sparse. Images and words are generated. All of it
# takes many hours: `auto.sh lenet 100mbit 2 exact` is one table.
set -euo pipefail
pick() { [ "${1:-all}" = all ] && echo "$2" || echo "$1"; }
models=$(pick "${1:-}" "lenet hdc resnet20 alexnet-32 vgg16-32 lstm-650")
rates=$(pick "${2:-}" "none 1gbit 500mbit 100mbit 10mbit")
numbers=$(pick "${3:-}" "2 4")
allowances=$(pick "${4:-}" "exact 16bit sparse")
shift $(($# < 4 ? $# : 4))

folder=$(mktemp -d)
finish() { tests/netns/netns.sh down && rm -r "$folder"; }
trap finish EXIT
awk 'BEGIN { srand(1); for (i = 0; i < 100000; ++i) printf "w%d%s", 10000 * rand(), i % 20 == 19 ? "\n" : " " }' > "$folder/words.txt"

dense=(--vs "dense: --sync allreduce" --vs "ring, 256 KiB: --fusion lazy:256KiB --chunk 1MiB"
  --vs "ring, 4 MiB: --fusion lazy:4MiB --chunk none" --vs "butterfly: --allreduce butterfly"
  --vs "butterfly, 256 KiB: --allreduce butterfly --fusion lazy:256KiB --chunk 1MiB" --vs "doubling: --allreduce doubling")
bits=(--vs "16 bits: --codec bf16" --vs "16 bits, butterfly: --codec bf16 --allreduce butterfly")

table() {  # model rate number allowance
  local app=cifar10 common=(--data synthetic:20000,100 --momentum 0.9 --no-augment --batch 16) sets
  local steps=30 warm_up=6
  case $1 in
    lenet | hdc) app=mnist common=(--data synthetic:20000,100 --momentum 0.9 --batch 16) ;;
    lstm-650) app=ptb common=(--data "$folder/words.txt" --batch 5 --schedule const) ;;
  esac
  case $1,$2 in  # a dense step takes seconds
    alexnet-32,100mbit | vgg16-32,100mbit | lstm-650,100mbit) steps=8 warm_up=2 ;;
    alexnet-32,10mbit | vgg16-32,10mbit | lstm-650,10mbit) steps=4 warm_up=1 ;;
  esac
  case $4 in
    exact) sets=(--vs "auto: --plan auto" "${dense[@]}") ;;
    16bit) sets=(--vs "auto: --plan auto --allow 16bit" "${dense[@]}" "${bits[@]}") ;;
    sparse) sets=(--vs "auto: --plan auto --allow 16bit,sparse:0.01" "${dense[@]}" "${bits[@]}"
      --vs "RedSync 1 %: --sync redsync --density 0.01") ;;
    *) echo "auto: $4 is no allowance here" >&2 && exit 2 ;;
  esac
  printf '\n%s, %s, %s workers, %s\n\n' "$1" "$2" "$3" "$4"
  build/apps/laconic compare "$app" --model "$1" --workers "$3" --threads 1 "${common[@]}" --lr 0.001 --eval-every 0 \
    --steps "$steps" --warm-up "$warm_up" --repeat 6 --no-bound --through "tests/netns/netns.sh run -n {ranks}" --markdown \
    "${sets[@]}" "${more[@]}"
}

more=("$@")
for number in $numbers; do
  for rate in $rates; do
    tests/netns/netns.sh up "$number" "$rate"
    for model in $models; do
      for allowance in $allowances; do table "$model" "$rate" "$number" "$allowance"; done
    done
    tests/netns/netns.sh down
  done
done
