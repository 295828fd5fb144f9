#!/bin/bash
# A decoder of JPEG can make a picture of half, a quarter or an eighth of the size, which is faster (Pillow's draft()).
# A file of kind 4:2:2 stores twice as many samples of colour as one of kind 4:2:0. Reduced, it has less of them.
#
# versions        Pillow 13.0.0 with its libjpeg-turbo 3.2.0, numpy 2.2.6, Python 3.11 (x86-64)
# one expects     4:2:2 is at least as near to the picture as 4:2:0, at any scale: it is so at full size
# what happens    the decoder leaves the colours of 4:2:0 at a larger scale than the brightness, so that they need no
#                 enlarging. It does so only where a factor of 2 fits both ways: those of 4:2:2 are made as small as
#                 the brightness, across to half of its width, and then enlarged
# date            30 November 2026
# output          largest error in a checkerboard of two colours, fields of 8 pixels, of 255
#                 1/1: 4:2:0  63.0   4:2:2  42.0
#                 1/2: 4:2:0   8.0   4:2:2  42.0
#                 1/4: 4:2:0   2.0   4:2:2  42.0
#                 1/8: 4:2:0   1.0   4:2:2  84.0
# what it means   who trains on reduced pictures sees other colours than who resizes whole ones: at 1/8 both colours of
#                 this board become one
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet pillow==13.0.0 numpy==2.2.6
"$work/venv/bin/python" - <<'PYTHON'
import io
import sys
import numpy
from PIL import Image

size, field = 256, 8
i = numpy.arange(size) // field
board = numpy.where((i[None, :] + i[:, None])[..., None] % 2 == 0,
                    numpy.array([190, 60, 60], 'u1'), numpy.array([20, 130, 130], 'u1'))


def error(kind, scale):
    file = io.BytesIO()
    Image.fromarray(board).save(file, 'JPEG', quality=95, subsampling=kind)
    image = Image.open(file)
    image.draft('RGB', (size // scale, size // scale))
    got = numpy.asarray(image.convert('RGB')).astype(float)
    right = board.astype(float).reshape(size // scale, scale, size // scale, scale, 3).mean((1, 3))
    return numpy.abs(got - right).max()


print(f'largest error in a checkerboard of two colours, fields of {field} pixels, of 255')
changed = False
for scale in (1, 2, 4, 8):
    less, more = error('4:2:0', scale), error('4:2:2', scale)
    print(f'1/{scale}: 4:2:0 {less:5.1f}   4:2:2 {more:5.1f}')
    changed |= (more < less) != (scale == 1) or (scale > 1 and more < 5 * less)
sys.exit('This is not what was seen: libjpeg-turbo behaves differently now.' if changed else 0)
PYTHON
