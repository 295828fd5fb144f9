#!/bin/bash
# zfp's fixed-accuracy mode takes an absolute error tolerance. Four small numbers come back with an error of 1.4 times
# that tolerance: one of -0.48 becomes 0.94 where at most 1 was allowed. Float and double give the same four numbers.
#
# versions        zfp 1.0.1 through zfpy 1.0.1, numpy 2.2.6, Python 3.11 (x86-64)
# one expects     no finite value is further off than the tolerance: that is what the mode is for
# what happens    a block of four values is decorrelated by a transform of its integers; bit planes below the tolerance
#                 are cut off after it, and the errors that this leaves in four coefficients add up in one value
# date            30 November 2026
# output          float32: [-0.1875, 0.9375, -0.4375, -0.3125], 1.42 times the tolerance
#                 float64: [-0.1875, 0.9375, -0.4375, -0.3125], 1.42 times the tolerance
# what it means   whoever promises a bound in zfp's name in one dimension promises too much
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet zfpy==1.0.1 numpy==2.2.6
"$work/venv/bin/python" - <<'PYTHON'
import sys
import numpy
import zfpy

tolerance = 1.0
as_seen = [-0.1875, 0.9375, -0.4375, -0.3125]
changed = False
for kind in (numpy.float32, numpy.float64):
    values = numpy.array([0, -0.48, -0.42, -0.49], kind)
    back = zfpy.decompress_numpy(zfpy.compress_numpy(values, tolerance=tolerance))
    error = float(numpy.abs(values.astype(float) - back.astype(float)).max())
    print(f'{kind.__name__}: {back.tolist()}, {error / tolerance:.2f} times the tolerance')
    changed |= back.tolist() != as_seen or not error > tolerance
sys.exit('This is not what was seen: zfp behaves differently now.' if changed else 0)
PYTHON
