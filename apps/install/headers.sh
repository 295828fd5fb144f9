#!/bin/sh
# Writes laconic's headers to FOLDER/laconic, for other projects. There they name one another as <laconic/core/tensor.h>,
# since a project may have a core/tensor.h of its own. A header that is the same already stays untouched.
#   headers.sh SOURCE FOLDER HEADER...
set -e
from=$1 to=$2/laconic
shift 2
for header; do
  mkdir -p "$to/${header%/*}"
  sed -E 's|^#include "(([a-z_]+/)+[a-z0-9_]+\.h)"|#include <laconic/\1>|' "$from/$header" >"$to/$header.new"
  if cmp -s "$to/$header.new" "$to/$header"; then rm "$to/$header.new"; else mv "$to/$header.new" "$to/$header"; fi
done
