#!/bin/sh
# Writes laconic's headers to FOLDER/laconic, for other projects. There they name one another as <laconic/core/tensor.h>,
# since a project may have a core/tensor.h of its own. A header that is the same already stays untouched.
#   headers.sh SOURCE FOLDER
set -e
from=$1 to=$2/laconic
cd "$from"
# Of apps, programs as functions and the parser of their options.
for header in $(find core layers optim data compress dist -name '*.h') apps/command_line.h apps/main.h apps/programs.h; do
  mkdir -p "$to/${header%/*}"
  sed -E 's|^#include "(([a-z_]+/)+[a-z0-9_]+\.h)"|#include <laconic/\1>|' "$header" >"$to/$header.new"
  if cmp -s "$to/$header.new" "$to/$header"; then rm "$to/$header.new"; else mv "$to/$header.new" "$to/$header"; fi
done
