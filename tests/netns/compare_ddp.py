#!/usr/bin/env python3
"""Time per training step, ours against PyTorch DistributedDataParallel (gloo), on the same cables with the same threads.

    compare_ddp.py APPS --model alexnet-32,resnet20 --batch 32,48,64,128 --rate 1gbit [--total] [--ranks 4] [--threads 1]
                   [--steps 10] [--turns 5] [--hook none,fp16] [--ours "--fusion none"] [--markdown | --json]

APPS is the folder of our programs (build/apps). --batch is of each rank; with --total it is the sum over the ranks. HybridAR's
table:   --model alexnet-32 --batch 128,192,256,512 --total    and the same without --total. As root; needs a Python with torch:
LACONIC_PYTHON, python3 or /usr/bin/python3. Exit status 77 where the network or torch cannot be had.

Every turn runs ours with --sync none (computing alone), with each --overlap, and DDP, one after the other in the same
namespaces; DDP computes alone (no_sync) and exchanges in one process. The first steps of a run are left out, and of ours the last one,
which has no next forward to hide behind. A turn's figure is its mean time per step; the table has medians over turns, and of the ratio ours (forward) to DDP turn by turn with its 95 % interval
(from 6 turns on; below that, the range). C is computing alone, X = none - C what exchanging adds when nothing is hidden, and
min(C, X)/(C + X) the share of the step that hiding alone can save; "saved of it" is (none - forward)/none.
"""
import argparse
import itertools
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
NETNS = str(HERE / 'netns.sh')
os.environ['LACONIC_NET'] = f'lacddp{os.getpid()}'
OVERLAPS = ['none', 'backward', 'forward']


def skip(why):
    print(f'skipped: {why}')
    sys.exit(77)


def call(command, timeout, **options):
    run = subprocess.run(command, text=True, capture_output=True, timeout=timeout, **options)
    if run.returncode == 77:
        skip(run.stderr.strip())
    if run.returncode != 0:
        raise RuntimeError(f'{" ".join(command)} ended with {run.returncode}:\n{run.stdout[-2000:]}{run.stderr[-2000:]}')
    return run.stdout


def python_with_torch():
    own = os.environ.get('LACONIC_PYTHON')
    for python in [own] if own else ['python3', '/usr/bin/python3']:
        try:
            if subprocess.run([python, '-c', 'import torch.distributed as d; d.init_process_group'], stderr=subprocess.DEVNULL).returncode == 0:
                return python
        except OSError:
            pass
    skip('no Python that can import torch (name one in LACONIC_PYTHON)')


def torch_environment(threads):
    """PyTorch at its best: OpenBLAS on OpenMP where it is installed, blocks of memory kept instead of given back."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(('OPENBLAS_', 'OMP_', 'OMPI_'))}
    environment.update(OMP_NUM_THREADS=str(threads), MALLOC_MMAP_THRESHOLD_='1073741824', MALLOC_TRIM_THRESHOLD_='8589934592')
    openblas = '/usr/lib/x86_64-linux-gnu/openblas-openmp'
    if os.path.isdir(openblas):
        environment['LD_LIBRARY_PATH'] = openblas
    return environment


class Case:
    """One model, batch and rate: what was measured, seconds per step by turn."""

    def __init__(self, o, model, batch, rate):
        self.o, self.model, self.batch, self.rate = o, model, batch, rate
        self.seconds = {}

    def add(self, name, value):
        self.seconds.setdefault(name, []).append(value)

    def ours(self, name, options):
        o = self.o
        steps = o.warmup + o.steps + 1
        samples = max(1000, o.ranks * self.batch * steps)  # one epoch: no evaluation in between
        with tempfile.TemporaryDirectory() as folder:
            log = f'{folder}/log.jsonl'
            app = 'mnist' if self.model in ('lenet', 'hdc', 'hdc-2.5mb') else 'cifar10'
            call([NETNS, 'run', '-n', str(o.ranks), f'{o.apps}/{app}', '--model', self.model, '--data', f'synthetic:{samples},100',
                  '--batch', str(self.batch), '--steps', str(steps), '--threads', str(o.threads), '--lr', '0.001', '--momentum', '0.9',
                  '--weight-decay', '5e-4', '--schedule', 'const', '--no-augment', '--no-shuffle', '--log', log, '--quiet', *options], o.timeout)
            lines = [json.loads(line) for line in open(log) if '"step"' in line]
        # sync none: each worker counts for itself the samples of all
        times = [o.ranks * self.batch / line['samples_per_s'] for line in lines[o.warmup:-1]]
        assert len(times) == o.steps, f'{len(lines)} steps in the log, {steps} were asked for'
        self.add(name, sum(times) / len(times))

    def peer(self, hook):
        o = self.o
        out = call([NETNS, 'all', o.python, str(HERE / 'ddp_peer.py'), '--model', self.model, '--batch', str(self.batch),
                    '--steps', str(o.steps), '--warmup', str(max(4, o.warmup)), '--threads', str(o.threads), '--hook', hook, '--layout', self.layout],
                   o.timeout, env=torch_environment(o.threads))
        result = json.loads(out.splitlines()[-1])
        self.layout = result['layout']
        self.add('DDP alone' if hook == 'none' else f'DDP {hook} alone', result['alone'][0])
        self.add('DDP' if hook == 'none' else f'DDP {hook}', result['ddp'][0])

    layout = 'auto'

    def turn(self):
        extra = self.o.ours.split()
        self.ours('alone', ['--sync', 'none'])
        for overlap in self.o.overlaps:
            self.ours(overlap, (['--overlap', overlap] if self.o.overlap_known else []) + extra)
        for hook in self.o.hook:
            self.peer(hook)

    def result(self):
        middle = {name: statistics.median(values) for name, values in self.seconds.items()}
        r = {'model': self.model, 'batch': self.batch, 'total_batch': self.batch * self.o.ranks, 'ranks': self.o.ranks,
             'threads': self.o.threads, 'rate': self.rate, 'turns': len(self.seconds['alone']), 'seconds': middle, 'all': self.seconds,
             'layout': self.layout}
        ours, theirs = self.seconds['forward'], self.seconds.get('DDP')
        if theirs:
            ratios = [a / b for a, b in zip(ours, theirs)]
            r['ratio'], r['ratio_low'], r['ratio_high'] = interval(ratios)
        if 'none' in middle:
            c, x = middle['alone'], max(0.0, middle['none'] - middle['alone'])
            r['bound'] = min(c, x) / (c + x)
            r['saved'] = 1 - middle['forward'] / middle['none']
        return r


def interval(values):
    """Median and its 95 % interval by order statistics; the range where the values are too few for one."""
    v, n = sorted(values), len(values)
    below, term, k = 0.0, 0.5 ** n, 0
    while k < n // 2 and 2 * (below + term) <= 0.05:
        below += term
        term *= (n - k) / (k + 1)
        k += 1
    return statistics.median(v), v[max(0, k - 1)], v[n - 1 - max(0, k - 1)]


def columns(o):
    return ['alone', *o.overlaps] + [n for h in o.hook for n in ((['DDP alone', 'DDP'] if h == 'none' else [f'DDP {h}']))]


def row(o, r):
    ms = [f'{1e3 * r["seconds"][name]:.0f}' for name in columns(o)]
    ratio = f'{r["ratio"]:.2f} ({r["ratio_low"]:.2f} … {r["ratio_high"]:.2f})' if 'ratio' in r else '–'
    saved = f'{100 * (r["ratio"] - 1):+.0f} %' if 'ratio' in r else '–'
    own = f'{100 * r["saved"]:.0f} of {100 * r["bound"]:.0f} %' if 'bound' in r else '–'
    return [r['model'], str(r['batch']), str(r['total_batch']), r['rate'], *ms, ratio, saved, own]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: text.split(',')
    parser.add_argument('apps', type=lambda p: str(pathlib.Path(p).resolve()))
    parser.add_argument('--model', type=words, default=['alexnet-32'])
    parser.add_argument('--batch', type=words, default=['32'])
    parser.add_argument('--total', action='store_true')
    parser.add_argument('--rate', type=words, default=['1gbit'])
    parser.add_argument('--ranks', type=int, default=4)
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--steps', type=int, default=10, help='that are timed, of each run')
    parser.add_argument('--warmup', type=int, default=4, help='steps before them')
    parser.add_argument('--turns', type=int, default=5)
    parser.add_argument('--overlaps', type=words, default=OVERLAPS)
    parser.add_argument('--hook', type=words, default=['none'])
    parser.add_argument('--ours', default='', help='more options of ours, in one word')
    parser.add_argument('--timeout', type=float, default=900, help='seconds that one run may take')
    parser.add_argument('--markdown', action='store_true')
    parser.add_argument('--json', action='store_true')
    o = parser.parse_args()
    if 'forward' not in o.overlaps:
        parser.error('--overlaps must have forward: the ratio is of it')
    if o.total and any(int(b) % o.ranks for b in o.batch):
        parser.error(f'a total batch must be a multiple of {o.ranks}')
    o.python = python_with_torch()
    o.overlap_known = '--overlap ' in call([f'{o.apps}/cifar10', '--help'], 60)
    if not o.overlap_known:
        o.overlaps = ['forward']

    results = []
    try:
        call([NETNS, 'up', str(o.ranks), o.rate[0]], 60)
        header = ['model', 'batch', 'total', 'rate', *[f'{c}, ms' for c in columns(o)], 'forward / DDP', 'against DDP', 'saved of it']
        if not o.json:
            cpu = next((l.split(': ')[1].strip() for l in open('/proc/cpuinfo') if l.startswith('model name')), platform.machine())
            print(f'{o.ranks} ranks in namespaces on {os.cpu_count()} cores ({cpu}), {o.threads} thread(s) a rank, {o.turns} turns of {o.steps} steps\n')
            print('| ' + ' | '.join(header) + ' |' if o.markdown else '  '.join(header), flush=True)
            if o.markdown:
                print('|' + '---|' * len(header), flush=True)
        for rate, model, batch in itertools.product(o.rate, o.model, o.batch):
            call([NETNS, 'rate', rate], 60)
            case = Case(o, model, int(batch) // o.ranks if o.total else int(batch), rate)
            for turn in range(o.turns):
                case.turn()
                print(f'{model} {batch} {rate}: turn {turn + 1} of {o.turns}', file=sys.stderr, flush=True)
            results.append(case.result())
            if not o.json:
                cells = row(o, results[-1])
                print('| ' + ' | '.join(cells) + ' |' if o.markdown else '  '.join(c.rjust(len(h)) for c, h in zip(cells, header)), flush=True)
        if o.json:
            print(json.dumps(results))
    finally:
        subprocess.run([NETNS, 'down'])


if __name__ == '__main__':
    main()
