#!/bin/bash
# Feeds each fuzz target for so many seconds, starting from what is kept of it in tests/corpus and in BUILD/fuzzed.
#   bash tests/fuzz/run.sh SECONDS [TARGET ...]
# BUILD=build-fuzz is made if it is not there, by CXX=clang++ and with SETUP_ARGS. One line a target. What went wrong lies
# in BUILD/fuzzed/crashes: mend it, and keep its input in tests/corpus/TARGET, which tests/corpus_test.cc reads.
set -u
cd "$(dirname "$0")/../.." || exit 1
[ $# -gt 0 ] || { sed -n '2,6s/^# //p' "$0"; exit 2; }
seconds=$1 build=$(realpath -m "${BUILD:-build-fuzz}")
shift
if [ ! -d "$build" ]; then
  CXX=${CXX:-clang++} meson setup "$build" -Dfuzz=true -Dcuda=disabled -Db_sanitize=address,undefined -Db_lundef=false \
    --buildtype=plain -Doptimization=1 ${SETUP_ARGS:-} || exit 1
fi
ninja -C "$build" tests/fuzz || exit 1
fuzz=$build/tests/fuzz
[ $# -gt 0 ] || set -- $("$fuzz" --list)

export TMPDIR ASAN_OPTIONS=detect_stack_use_after_return=0:allocator_may_return_null=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export LSAN_OPTIONS=suppressions=$PWD/tests/lsan.supp:print_suppressions=0
TMPDIR=$(mktemp -d "$([ -d /dev/shm ] && echo /dev/shm || echo /tmp)/laconic-fuzz.XXXXXX") || exit 1
trap 'rm -rf "$TMPDIR"' EXIT
mkdir -p "$build/fuzzed/crashes"
failed=0
for target; do
  mkdir -p "$build/fuzzed/$target"
  # Inputs may name files, and print: the folder is a bare one, and stdout closed.
  (cd "$TMPDIR" && "$fuzz" --target="$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -close_fd_mask=1 \
    -print_final_stats=1 -artifact_prefix="$build/fuzzed/crashes/$target-" "$build/fuzzed/$target" \
    "$OLDPWD/tests/corpus/$target") >"$build/fuzzed/$target.log" 2>&1
  code=$?
  printf '%-16s %s\n' "$target" "$(sed -n 's/^stat::number_of_executed_units: */executions: /p' "$build/fuzzed/$target.log")$(
    [ $code = 0 ] || echo "  FAILED: $build/fuzzed/$target.log")"
  [ $code = 0 ] || failed=1
done
exit $failed
