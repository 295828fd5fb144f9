"""Writes token_files.json: the same tokens as other programs' files hold them, in hexadecimal digits.

    python3 -m venv venv && venv/bin/pip install numpy==2.4.6
    venv/bin/python tests/golden/token_files.py

nanoGPT's are numpy.tofile of uint16, or of uint32 where a vocabulary needs it; llm.c's have a header of 256 int32: a
magic number, a version, how many tokens follow.
"""
import io
import json
import pathlib

import numpy as np

FOLDER = pathlib.Path(__file__).parent
TOKENS = np.arange(100) * 37 % 96
LARGE = TOKENS * 1000 + 30000  # up to 125,000: more than 16 bits can number


def npy(tokens, **how):
    out = io.BytesIO()
    np.lib.format.write_array(out, tokens, **how)
    return out.getvalue()


def llm_c(magic, version, tokens):
    header = np.zeros(256, np.int32)
    header[:3] = magic, version, len(tokens)
    return header.tobytes() + tokens.tobytes()


small = {f'{name}.npy': npy(TOKENS.astype(name)) for name in ('u1', 'u2', 'u4', 'i1', 'i2', 'i4', 'i8')}
small.update({
    'version2.npy': npy(TOKENS.astype('u2'), version=(2, 0)),
    'fortran.npy': npy(np.asfortranarray(TOKENS.astype('u2'))),
    'nanogpt16.bin': TOKENS.astype(np.uint16).tobytes(),
    'nanogpt32.bin': TOKENS.astype(np.uint32).tobytes(),
    'gpt2.bin': llm_c(20240520, 1, TOKENS.astype(np.uint16)),
    'llama3.bin': llm_c(20240801, 7, TOKENS.astype(np.uint32)),
})
large = {'u4.npy': npy(LARGE.astype('u4')), 'nanogpt32.bin': LARGE.astype(np.uint32).tobytes(),
         'llama3.bin': llm_c(20240801, 7, LARGE.astype(np.uint32))}
with open(FOLDER / 'token_files.json', 'w') as out:
    json.dump({kind: {name: content.hex() for name, content in files.items()}
               for kind, files in (('small', small), ('large', large))}, out, separators=(',', ':'))
    out.write('\n')
