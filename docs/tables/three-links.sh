#!/usr/bin/env bash
# Three links, three plans: what --plan auto takes at 10 Gb/s, 1 Gb/s and 50 Mb/s, with its receipts, and beside it each
# thing that it may take, given by hand (docs/planning.md). Then what more workers would give, from the log of 1 Gb/s.
# From the project's folder:
#
#   bash docs/tables/three-links.sh threads|namespaces MODEL [options of compare]
#
# threads: emulated links; namespaces: MPI between network namespaces, as root. MODEL: lenet or alexnet-32. Images are
# generated: these are times alone.
set -euo pipefail
where=${1:?threads or namespaces} model=${2:?MODEL}
shift 2
case $model in
  lenet) app=mnist ;;
  alexnet-32) app=cifar10 ;;
  *) echo "three-links: no model $model here" >&2 && exit 2 ;;
esac
common=(--model "$model" --data synthetic:20000,100 --no-augment --batch 16 --threads 1 --momentum 0.9 --lr 0.001 --eval-every 0)
allowed=(--plan auto --allow 16bit,sparse:0.01)
folder=$(mktemp -d)
finish() { [ "$where" = threads ] || tests/netns/netns.sh down; rm -r "$folder"; }
trap finish EXIT
for rate in 10gbit 1gbit 50mbit; do
  steps=30 warm_up=6 repeat=4
  [ "$model $rate" = "alexnet-32 50mbit" ] && steps=7 warm_up=2 repeat=2  # a dense step takes 15 seconds
  case $where in
    threads) start=("build/apps/$app") link=(--workers 2 --link "$rate,100us") through=() ;;
    namespaces)
      tests/netns/netns.sh down
      tests/netns/netns.sh up 2 "$rate"
      start=(tests/netns/netns.sh run -n 2 "build/apps/$app") link=() through=(--workers 2 --no-bound --through "tests/netns/netns.sh run -n {ranks}")
      ;;
    *) echo "three-links: $where: give threads or namespaces" >&2 && exit 2 ;;
  esac
  printf '\n%s\n\n' "$rate"
  "${start[@]}" "${common[@]}" "${link[@]}" "${allowed[@]}" --steps 12 --log "$folder/$rate.jsonl" |
    sed -n '/^plan: /,/ plans compared in /p'
  build/apps/laconic compare "$app" "${common[@]}" "${link[@]}" "${through[@]}" --steps "$steps" --warm-up "$warm_up" --repeat $repeat --markdown \
    --vs "auto: ${allowed[*]}" --vs "dense: --sync allreduce" --vs "16 bits: --codec bf16" \
    --vs "RedSync 1 %: --sync redsync --density 0.01" "$@" 2> /dev/null
done
build/apps/laconic simulate --replay "$folder/1gbit.jsonl" --workers 2..1024 --vs "dense: --sync allreduce" --vs "16 bits: --codec bf16" \
  --vs "RedSync 1 %: --sync redsync --density 0.01"
