#!/usr/bin/env python3
"""Writes tests/golden/arrays/: files of arrays as numpy 2.4.6 and MLX 0.32.4 (mlx-cpu) with Python 3.11 save them.

Run with both installed:  python3 tests/golden/arrays.py tests/golden/arrays
expected.txt has a line for each array: FILE or FILE:NAME, float32 or int64, extents as 2x3 (- of a number), values.
"""
import os
import sys
import zipfile

import mlx.core as mx
import numpy as np

folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
lines = []


def expect(name, array):
    kind = "float32" if array.dtype.kind == "f" else "int64"
    with np.errstate(over="ignore"):
        values = [repr(float(np.float32(v))) if kind == "float32" else str(int(v)) for v in array.flatten("C")]
    lines.append(" ".join([name, kind, "x".join(map(str, array.shape)) or "-"] + values))


def path(name):
    return os.path.join(folder, name)


def archive(name, arrays, save):
    save(path(name), **arrays)
    for key, array in arrays.items():
        expect(name + ":" + key, array)


def edges(kind):
    if kind == "b1":
        return [True, False, False, True, True, False]
    if kind[0] != "f":
        info = np.iinfo(kind)
        return [info.min, info.min + 1, 0, 1, info.max // 3, min(info.max, 2**63 - 1)]
    tiny, most = {"f2": (2.0**-24, 65504), "f4": (2.0**-149, 3.4028234663852886e38),
                  "f8": (1e-50, 3.4028235677973362e38)}[kind]
    return [tiny, -0.0, 1 / 3, most, float("-inf"), float("nan")]


kinds = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"]
little = {kind: np.array(edges(kind), kind).reshape(2, 3) for kind in kinds}
archive("types.npz", little, np.savez)
archive("big_endian.npz", {k: a.astype(">" + k) for k, a in little.items()}, np.savez_compressed)

count = np.arange(24)
archive("fortran.npz", {
    "matrix": np.asfortranarray(count.reshape(4, 6).astype("f4")),
    "cube": np.asfortranarray(count.reshape(2, 3, 4).astype("i4")),
    "big_endian": np.asfortranarray(count.reshape(3, 2, 4).astype(">f8")),
    "ones": np.asfortranarray(count.reshape(2, 1, 3, 1, 4, 1).astype("f2")),
}, np.savez_compressed)

for version in 1, 2, 3:
    name = f"version{version}.npy"
    with open(path(name), "wb") as file:
        np.lib.format.write_array(file, little["f4"], version=(version, 0))
    expect(name, little["f4"])
for name, array in {"number.npy": np.array(-2.5), "nothing.npy": np.zeros((0, 3), "<u2")}.items():
    np.save(path(name), array)
    expect(name, array)


class Pipe:
    """A file that cannot go back: what is packed has its lengths behind it."""

    def __init__(self, name):
        self.file = open(name, "wb")

    def write(self, data):
        return self.file.write(data)

    def flush(self):
        self.file.flush()

    def read(self):
        raise NotImplementedError


few = {"a": count.reshape(2, 12).astype("<i4"), "b c/d": count[:3].astype("f4")}
archive("streamed.npz", few, lambda name, **arrays: np.savez_compressed(Pipe(name), **arrays))

mx.set_default_device(mx.cpu)
values = mx.array([[1.5, 2, 3], [4, 5, 6]])
of_mlx = {"vector": values[0], "matrix": values, "transposed": values.T, "number": mx.array(3),
          "half": values.astype(mx.float16)}
mx.savez(path("mlx.npz"), brain=values.astype(mx.bfloat16), **of_mlx)
for key, array in of_mlx.items():
    expect("mlx.npz:" + key, np.array(array))

zipfile.ZIP64_LIMIT = 1  # as if the file had 4 GiB: lengths and places stand in the fields of 64 bits
archive("zip64.npz", few, np.savez_compressed)

with open(path("expected.txt"), "w") as out:
    out.write("\n".join(lines) + "\n")
