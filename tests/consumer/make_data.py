#!/usr/bin/env python3
"""Makes what the programs of apps/examples/own_models read: make_data.py DIR writes rings.csv and pictures/ there."""
import math
import os
import random
import struct
import sys
import zlib

folder = sys.argv[1]
rng = random.Random(1)


def png(path, width, height, pixel):
    rows = b''.join(b'\0' + bytes(c for x in range(width) for c in pixel(x, y)) for y in range(height))

    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    with open(path, 'wb') as out:
        out.write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)) +
                  chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))


with open(os.path.join(folder, 'rings.csv'), 'w') as out:
    out.write('x,y,ring\n')
    for i in range(600):
        radius, angle = (1, 2)[i % 2] + rng.gauss(0, 0.15), rng.uniform(0, 2 * math.pi)
        out.write(f'{radius * math.cos(angle):.4f},{radius * math.sin(angle):.4f},{("inner", "outer")[i % 2]}\n')

for part, count in (('train', 32), ('val', 8)):
    for kind in ('lying', 'standing'):
        os.makedirs(os.path.join(folder, 'pictures', part, kind), exist_ok=True)
        for i in range(count // 2):
            shift, tone = rng.randrange(8), rng.randrange(60)
            png(os.path.join(folder, 'pictures', part, kind, f'{i}.png'), 24 + i, 30 - i % 5,
                lambda x, y: [(((y if kind == 'lying' else x) + shift) // 4 % 2) * 150 + tone] * 3)
