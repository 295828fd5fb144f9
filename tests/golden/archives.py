#!/usr/bin/env python3
"""Writes tests/golden/archives/: one tree of files as programs put it in archives, and samples as WebDataset does.

Run with webdataset 1.0.2:  python3 tests/golden/archives.py tests/golden/archives
Written by Python 3.11.7, GNU tar 1.34 and Info-ZIP 3.0. Files hold no pictures: each holds its own path, as often as to have 700 bytes. tests/image_archive_test.cc knows them.
"""
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

import webdataset

to = os.path.abspath(sys.argv[1])
os.makedirs(to, exist_ok=True)
LONG = "l" * 120
FILES = ["photos/" + name for name in (
    "read.me", "train/b/2.JPEG", "train/b/10.jpg", "train/B/x.png", f"train/a/{LONG}.png", "train/a/\u00e4.jpeg",
    "train/a/.hidden.jpg", "val/a/1.jpg", "val/B/1.jpg")]


def content(name):
    return (name.encode() * 700)[:700]


class Pipe:
    """What cannot go back, so that lengths stand behind the files."""

    def __init__(self, file):
        self.write, self.flush = file.write, file.flush


with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    for name in FILES:
        os.makedirs(os.path.dirname(name), exist_ok=True)
        with open(name, "wb") as f:
            f.write(content(name))
        os.utime(name, (1e9, 1e9))
    os.link("photos/train/b/2.JPEG", "photos/train/b/3.jpg")
    with tarfile.open(f"{to}/python.tar", "w") as t:
        t.add("photos")
    owner = ["--owner=0", "--group=0", "--mtime=@0", "--sort=name"]
    subprocess.run(["tar", *owner, "--format=gnu", "-czf", f"{to}/gnu.tar.gz", "-C", "photos", "."], check=True)
    subprocess.run(["tar", *owner, "--format=posix", "-cf", f"{to}/gnu.tar", "photos"], check=True)
    with zipfile.ZipFile(f"{to}/python.zip", "w") as z:
        for i, name in enumerate([*FILES, "photos/train/b/3.jpg"]):
            z.write(name, compress_type=zipfile.ZIP_DEFLATED if i % 2 else zipfile.ZIP_STORED)
    with open(f"{to}/python-pipe.zip", "wb") as f, zipfile.ZipFile(Pipe(f), "w", zipfile.ZIP_DEFLATED) as z:
        for name in [*FILES, "photos/train/b/3.jpg"]:
            z.write(name)
    if os.path.exists(f"{to}/info.zip"):
        os.remove(f"{to}/info.zip")
    subprocess.run(["zip", "-q", "-r", f"{to}/info.zip", "photos"], check=True)
    shutil.rmtree("photos")

for shard, keys in (("samples-000.tar", range(0, 3)), ("samples-001.tar", range(3, 5))):
    with webdataset.TarWriter(f"{to}/{shard}", mtime=0) as out:
        for key in keys:
            out.write({"__key__": f"photos/{key:03d}", "cls": 4 - key, "jpg" if key % 2 else "png":
                       content(f"sample {key}"), "json": {"caption": "no matter"}, "seg.png": b"another picture"})
