"""What the scripts here share: tensors by name and a list of cases, written as one safetensors file.

    from cases import cases, keep, write
"""
import json
import os
import struct

import numpy as np
import torch

tensors, cases = {}, []


def keep(name, t):
    tensors[name] = np.array(t.detach().numpy(), order="C")  # a copy: modules are used again


def write(file):
    """Writes FILE beside this script: the tensors in the order of keep(), the list as JSON in its text "cases"."""
    names = {np.dtype("float32"): "F32", np.dtype("int64"): "I64"}
    header, at = {"__metadata__": {"cases": json.dumps(cases), "torch": torch.__version__}}, 0
    for name, a in tensors.items():
        header[name] = {"dtype": names[a.dtype], "shape": list(a.shape), "data_offsets": [at, at + a.nbytes]}
        at += a.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), file)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for a in tensors.values():
            f.write(a.tobytes())
    print(len(cases), "cases,", os.path.getsize(path), "bytes")
