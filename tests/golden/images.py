#!/usr/bin/env python3
"""Writes tests/golden/images/: small pictures, and what Pillow and torchvision make of them.

Run with any Pillow and torchvision, and cjpeg of libjpeg-turbo 2.1.5:
    python3 tests/golden/images.py tests/golden/images
photo.png is 61 x 43: waves, an edge, and noise. For each KIND.jpg (colours whole, at half the size or at an eighth of
the pixels, grey, progressive, CMYK; red that ends in two green columns) KIND.png is what Pillow decodes; for
progressive.jpg that is half.png. resize_* and eval_* are photo.png resized, jitter_* with colours adjusted.
"""
import math
import os
import random
import struct
import subprocess
import sys
import zlib

from PIL import Image
from torchvision.transforms import functional as F

folder = sys.argv[1]


def path(name):
    return os.path.join(folder, name)


def photo(width, height):
    rng = random.Random(7)
    image = Image.new("RGB", (width, height))
    for y in range(height):
        for x in range(width):
            wave = 60 * math.sin(x / 5) + 50 * math.cos(y / 7 + x / 31)
            edge = 70 if 2 * x > 3 * y else -30
            image.putpixel((x, y), tuple(max(0, min(255, int(128 + edge / (c + 1) + wave * (1 - 0.4 * c) +
                                                             rng.randint(-5, 5)))) for c in range(3)))
    return image


def png16(name, width, height):
    """RGB with 16 bits: Pillow writes none. The upper 8 bits are 3 x + 5 y + 80 c."""
    rows = b"".join(b"\0" + b"".join(struct.pack(">H", ((3 * x + 5 * y + 80 * c) % 256) << 8 | (x * y) % 256)
                                     for x in range(width) for c in range(3)) for y in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    with open(path(name), "wb") as out:
        out.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)) +
                  chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


os.makedirs(folder, exist_ok=True)
image = photo(61, 43)
image.save(path("photo.png"), optimize=True)

large = image.resize((123, 83), Image.BICUBIC)
for kind, save in {"whole": {"subsampling": 0}, "half": {"subsampling": 2}, "across": {"subsampling": 1},
                   "progressive": {"progressive": True}, "grey": {}, "cmyk": {}}.items():
    source = large.convert("L") if kind == "grey" else large.convert("CMYK") if kind == "cmyk" else large
    source.save(path(kind + ".jpg"), quality=75, **save)
    if kind != "progressive":
        Image.open(path(kind + ".jpg")).convert("RGB").save(path(kind + ".png"), optimize=True)
edge = Image.new("RGB", (32, 16), (255, 0, 0))
edge.paste((0, 255, 0), (30, 0, 32, 16))
edge.save(path("edge.jpg"), quality=75, subsampling=1)
Image.open(path("edge.jpg")).convert("RGB").save(path("edge.png"), optimize=True)
wide = path("wide.ppm")
image.resize((203, 43), Image.BICUBIC).save(wide)
subprocess.run(["cjpeg", "-quality", "75", "-sample", "4x2", "-outfile", path("eighth.jpg"), wide], check=True)
os.remove(wide)
Image.open(path("eighth.jpg")).convert("RGB").save(path("eighth.png"), optimize=True)
png16("sixteen.png", 9, 7)
image.convert("P", palette=Image.ADAPTIVE, colors=60).save(path("palette.png"))
Image.open(path("palette.png")).convert("RGB").save(path("palette_rgb.png"), optimize=True)

# x, y, width, height of the part; width, height of the result
for x, y, w, h, width, height in [(0, 0, 61, 43, 24, 20), (0, 0, 61, 43, 70, 50), (13, 7, 40, 31, 32, 32),
                                  (20, 9, 8, 30, 24, 24), (0, 0, 61, 43, 5, 3), (60, 42, 1, 1, 8, 8)]:
    F.resized_crop(image, y, x, h, w, (height, width)).save(path(f"resize_{x}_{y}_{w}_{h}_{width}_{height}.png"),
                                                            optimize=True)
for size in (28, 49):
    view = F.center_crop(F.resize(image, round(size * 8 / 7)), size)
    view.save(path(f"eval_{size}.png"), optimize=True)
for kind, adjust in {"brightness": F.adjust_brightness, "contrast": F.adjust_contrast,
                     "saturation": F.adjust_saturation}.items():
    for factor in (0.6, 1.4):
        adjust(image, factor).save(path(f"jitter_{kind}_{factor}.png"), optimize=True)
