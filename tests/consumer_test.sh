#!/bin/bash
# Installs laconic into an empty prefix, builds the project in tests/consumer/ against it, and runs that.
#   consumer_test.sh BUILD_DIR SANITIZERS
set -eu
build=$1 sanitize=${2:-none}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

DESTDIR=$work/root meson install -C "$build" --no-rebuild --quiet
pc=$(dirname "$(find "$work/root" -name laconic.pc)")

# Another place, another project: nothing of the source tree is visible from here but through the installed copy.
cp -r "$here/consumer" "$work/project"
cd "$work/project"
PKG_CONFIG_PATH=$pc meson setup out -Db_sanitize="$sanitize"
ninja -C out
./out/own_model
