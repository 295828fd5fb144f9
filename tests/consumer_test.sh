#!/bin/bash
# Installs laconic into an empty prefix, builds the project in tests/consumer/ against it, and runs that.
#   consumer_test.sh BUILD_DIR
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

DESTDIR=$work/root meson install -C "$build" --no-rebuild --quiet
pc=$(dirname "$(find "$work/root" -name laconic.pc)")

# A library is named once.
for word in $(grep '^Libs:' "$pc/laconic.pc"); do echo "$word"; done | sort | uniq -d | { ! grep .; }

# Another place, another project: nothing of the source tree is visible from here but through the installed copy. Its
# own headers have names of ours.
cp -r "$here/consumer" "$work/project"
cd "$work/project"
mkdir -p core data dist/trainer
for header in core/tensor.h data/loader.h data/synthetic.h dist/trainer/trainer.h; do echo '#error not ours' >"$header"; done
PKG_CONFIG_PATH=$pc meson setup out --buildtype=plain
ninja -C out
./out/own_model

# That project by CMake.
if command -v cmake >/dev/null; then
  cmake -S . -B by_cmake -G Ninja -DCMAKE_PREFIX_PATH="${pc%/lib*}" -DCMAKE_BUILD_TYPE= >cmake.log || { cat cmake.log; exit 1; }
  ninja -C by_cmake
  ./by_cmake/own_model
fi

# That project with laconic's sources in it, as a shared library. Building them takes the time here, so nothing is
# optimised.
mkdir -p subprojects && ln -s "$here/.." subprojects/laconic
meson setup out_of_sources --buildtype=plain -Dunity_size=1000 -Dlaconic:default_library=shared -Dlaconic:cuda=disabled \
  -Dlaconic:instructions=avx2
ninja -C out_of_sources
./out_of_sources/own_model
[ ! -e out_of_sources/subprojects/laconic/apps/mnist ]

# The same by CMake. Its recipe asks Meson to configure and to install; this one takes what was installed above.
if command -v cmake >/dev/null; then
  cat >meson_that_builds_nothing <<END
#!/bin/sh
case \$1 in
  setup) exec meson "\$@" ;;
  install) mkdir -p installed/lib && cp -r "${pc%/lib*}/include" installed && cp "$pc/../liblaconic.a" installed/lib ;;
esac
END
  chmod +x meson_that_builds_nothing
  cmake -S . -B by_fetching -G Ninja -DFETCHED=ON -DFETCHCONTENT_SOURCE_DIR_LACONIC="$here/.." -DCMAKE_BUILD_TYPE= \
    -DLACONIC_MESON="$PWD/meson_that_builds_nothing" >cmake.log || { cat cmake.log; exit 1; }
  ninja -C by_fetching
  ./by_fetching/own_model
fi

# Models of one's own, on data of one's own: docs/from-pytorch.md and docs/tutorial.md show them.
cp -r "$here/../apps/examples/own_models" "$work/own_models"
cd "$work/own_models"
python3 "$here/consumer/make_data.py" .
PKG_CONFIG_PATH=$pc meson setup out --buildtype=plain
ninja -C out
./out/sequences --workers 2 --threads 1 --quiet --json | python3 -c '
import json, sys
assert json.loads(sys.stdin.readlines()[-1])["eval"]["metrics"]["accuracy"] > 0.9'
./out/sequences --help | grep -q -- '--hidden H'
small="./out/sequences --workers 2 --threads 1 --quiet --hidden 5 --sync topk --density 0.1 --dense-below 0"
$small --steps 6 --save all && $small --steps 4 --save part && $small --steps 6 --save part --resume
cmp all/weights.safetensors part/weights.safetensors
if $small --steps 8 --save part --resume --hidden 6 2>error; then exit 1; fi
grep -q 'own settings=hidden=5' error
if command -v mpirun >/dev/null; then
  laconic=$(find "$work/root" -name laconic -type f -perm -u+x | head -n 1)
  "$laconic" launch -n 2 ${small/--workers 2/} --steps 6 --save ranks
  cmp all/weights.safetensors ranks/weights.safetensors
fi
for program in tensors "table rings.csv" "images pictures" attention "callbacks rings.csv"; do ./out/$program; done

# And a program with a method, a selector and a codec of its own, which has all that the bundled ones have.
cp -r "$here/../apps/examples/own_method" "$work/own_method"
cd "$work/own_method"
PKG_CONFIG_PATH=$pc meson setup out --buildtype=plain
ninja -C out
./out/own check
train="./out/own --data synthetic:400,50 --steps 20 --quiet --threads 1"
$train --sync peaks --peaks-of 16 --workers 4 --ledger 2 --link 100mbit,1ms --save all --log log.jsonl --trace trace.json
$train --sync peaks --peaks-of 16 --workers 4 --ledger 2 --save part --steps 13
$train --sync peaks --peaks-of 16 --workers 4 --ledger 2 --save part --resume
cmp all/weights.safetensors part/weights.safetensors
$train --sync allreduce --codec int8 --workers 2
$train --sync redsync --selector blocks --density 0.01 --index-coding delta --workers 2
grep -q '"energy_held"' log.jsonl
./out/own --help | grep -q -- '--peaks-of B'
./out/own --help | grep -q 'blocks'
if $train --sync peaks --peaks-of 0 2>error; then exit 1; fi
grep -q "'0' is not a whole number of at least 1 (--peaks-of): give one, as --peaks-of 4" error
printf 'sync = "peaks"\npeaks-of = 4\n' >own.toml
$train --workers 2 --config own.toml
laconic=$(find "$work/root" -name laconic -type f -perm -u+x | head -n 1)
"$laconic" compare ./out/own --data synthetic:400,50 --steps 8 --workers 2 --threads 1 --link 100mbit,1ms --quiet \
  --vs "peaks: --sync peaks" --vs "int8: --codec int8" >table
grep -q '^ *peaks ' table && grep -q '^ *int8 ' table
