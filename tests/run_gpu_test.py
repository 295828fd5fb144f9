"""Runs tests/run-gpu.sh on the emulated device, every part of it in little: python3 tests/run_gpu_test.py BUILD_DIR

Then with programs that fail and hang, and with no time at all.
"""
import os
import subprocess
import sys
import tarfile
import tempfile

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run-gpu.sh")


def run(folder, prebuilt, **environment):
    """The exit status, the last line, and the names of what is in the archive."""
    environment = dict(os.environ, DRY_RUN="1", PREBUILT=prebuilt, **environment)
    done = subprocess.run(["bash", SCRIPT, folder], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=600)
    print(done.stdout)
    with tarfile.open(folder + ".tar.gz") as archive:
        names = {os.path.relpath(name, os.path.basename(folder)) for name in archive.getnames()}
    return done.returncode, done.stdout.rstrip().splitlines()[-1], names


def expect(what, *also):
    assert what, also


def main(build):
    with tempfile.TemporaryDirectory() as temporary:
        results = os.path.join(temporary, "results")
        status, last, names = run(results, build)
        expect(status == 0 and ", 0 failed, " in last and not last.startswith("0 passed"), status, last)
        tables = {"step-lenet.md", "layers-lenet.md", "select.md", "codec.md"}
        expect({"machine.txt", "tests.tsv", "summary.txt"} | tables <= names, names)
        for table in tables:
            text = open(os.path.join(results, table), encoding="utf-8").read()
            expect("\n|" in text, table, text)
        steps = open(os.path.join(results, "step-lenet.md"), encoding="utf-8").read()
        expect(all(precision in steps for precision in ("fp32", "tf32", "bf16")), steps)

        status, last, names = run(results, build, DEADLINE="0")
        expect(status == 0 and last.startswith("0 passed, 0 failed") and "not begun before the deadline: " in last, last)
        expect(not tables & names, names)

        packed = os.path.join(temporary, "packed")
        subprocess.run(["bash", SCRIPT, results], env=dict(os.environ, SETUP_ARGS="none", BUILD=build, PACK=packed), check=True)
        status, last, names = run(results, packed, PARTS="codec")
        expect(status == 0 and "codec.md" in names, status, last, names)

        fakes = {"apps/laconic": "[ \"$2\" = --help ] || exit 3",
                 "tests/cuda_test": "case $1 in\n--gtest_list*) printf 'CudaLibraries.\\n  A\\nCudaDevices.\\n  B\\n';;\n"
                                    "*Libraries*) sleep 60;;\n*) echo '[  FAILED  ] CudaDevices.B (0 ms)'; exit 1;;\nesac"}
        for path, script in fakes.items():
            path = os.path.join(temporary, "fakes", path)
            os.makedirs(os.path.dirname(path))
            with open(path, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\n" + script + "\n")
            os.chmod(path, 0o755)
        status, last, names = run(results, os.path.join(temporary, "fakes"), SUITE_SECONDS="3", PARTS="cuda codec")
        expect(status == 1 and last.startswith("0 passed, 2 failed, 0 skipped"), last)
        expect("failed: cuda/CudaLibraries cuda/CudaDevices codec" in last, last)
        expect({"tests/cuda-CudaDevices.txt", "codec.md"} <= names, names)


main(sys.argv[1])
