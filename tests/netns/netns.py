"""What the scripts beside netns.sh share: calling it, and exit status 77 (skipped) where hosts cannot be had."""
import os
import pathlib
import subprocess
import sys

SCRIPT = str(pathlib.Path(__file__).resolve().parent / 'netns.sh')


def named(name):
    """From here on this process's hosts are a cluster of their own."""
    os.environ['LACONIC_NET'] = f'{name}{os.getpid()}'


def skip(why):
    print(f'skipped: {why}')
    sys.exit(77)


def call(command, timeout=None, **options):
    """What a command prints; skips with its reason where it ends with 77."""
    try:
        run = subprocess.run(command, text=True, capture_output=True, timeout=timeout, **options)
    except subprocess.TimeoutExpired:
        sys.exit(f'{" ".join(command)} did not end within {timeout:g} s.')
    if run.returncode == 77:
        skip(run.stderr.strip())
    if run.returncode != 0:
        said = run.stdout[-2000:] + run.stderr[-2000:]
        raise RuntimeError(f'{" ".join(command)} ended with {run.returncode}:\n{said}')
    return run.stdout


def netns(*arguments, timeout=None):
    return call([SCRIPT, *arguments], timeout)


def down():
    subprocess.run([SCRIPT, 'down'])
