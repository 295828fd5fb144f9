#!/bin/bash
# Builds laconic and runs its tests. The last line is "N passed, N failed"; the exit status says the same.
#   BUILD=dir         build there instead of in build/
#   SETUP_ARGS=...    more arguments for meson setup, for example -Db_sanitize=address,undefined
#   TARGETS=...       build these alone, for example tests/dist_test (with ARGS that run no others)
#   bash tests/run.sh ARGS      ARGS go to meson test, for example --suite threads
set -u
cd "$(dirname "$0")/.." || exit 1
unset ${!OPENBLAS_@} ${!OMP_@} ${!OMPI_@} ${!PMIX_@} DESTDIR
. apps/patience.sh
build=${BUILD:-build}

bash apps/setup.sh || exit 1

[ -f "$build/build.ninja" ] || meson setup "$build" ${SETUP_ARGS:-} >"/tmp/laconic-setup.$$" 2>&1 ||
  { cat "/tmp/laconic-setup.$$"; rm -f "/tmp/laconic-setup.$$"; echo "0 passed, 1 failed"; exit 1; }
rm -f "/tmp/laconic-setup.$$"
echo "Building in $build ..."
mkdir -p "$build/meson-logs"
: >"$build/meson-logs/build.txt"
build "$build" "$build/meson-logs/build.txt" ${TARGETS:-} ||
  { tail -n 60 "$build/meson-logs/build.txt"; echo "The build failed."; echo "0 passed, 1 failed"; exit 1; }

rm -f "$build"/*.xml "$build/meson-logs/testlog.json"   # results of an earlier run must not count
if [ -t 1 ]; then meson test -C "$build" --no-rebuild "$@"; status=$?
else beside "Testing" meson test -C "$build" --no-rebuild "$@" >"$build/meson-logs/test.txt" 2>&1; status=$?
fi
exec python3 tests/count.py "$build" $status
