#!/usr/bin/env python3
"""Time per training step, ours against PyTorch DistributedDataParallel (gloo), or sets of our options against each other, on the same
cables with the same threads.

    compare_ddp.py APPS --model alexnet-32,resnet20 --batch 32,48,64,128 --rate 1gbit [--total] [--ranks 4] [--threads 1]
                   [--steps 10] [--turns 5] [--hook none,fp16,powersgd] [--ours "--fusion none"] [--markdown | --json]
    compare_ddp.py APPS --model lstm-650 --batch 5 --vs "RGC: --sync redsync" --vs "qRGC: --sync redsync --qrgc" ...

APPS is the folder of our programs (build/apps). --batch is of each rank; with --total it is the sum over the ranks. HybridAR's
table:   --model alexnet-32 --batch 128,192,256,512 --total    and the same without --total. As root; needs a Python with torch:
LACONIC_PYTHON, python3 or /usr/bin/python3. Exit status 77 where the network or torch cannot be had.

Every turn runs ours with --sync none (computing alone), with each --overlap, and DDP with each --hook, one after the other in
the same namespaces; DDP computes alone (no_sync) and exchanges in one process. The first steps of a run are left out, and of
ours the last one, which has no next forward to hide behind. A turn's figure is its mean time per step; the table has medians
over turns, and of ratios, turn by turn, their 95 % interval (from 6 turns on; below that, the range). C is computing alone,
X = none - C what exchanging adds when nothing is hidden, and min(C, X)/(C + X) the share of the step that hiding alone can
save; "saved of it" is (none - forward)/none. Images are generated; language models read generated text of 10,000 words.

With --vs, ours is run with each of these sets of options instead of the overlaps, and each has a line of its own: against our
computing alone, and against the fastest of DDP's hooks here. --hook '' leaves DDP out.

With --servers K the sets have K more ranks that serve, or as many as a set says itself (computing alone has none), and the lines
say instead: a step against that of the first set; what it is made of: a worker computing (the step without what it waits), of this
choosing what to send, and waiting, against the first set's; CPU time of a worker and of a server, all threads; MB of all workers up
to servers, and down. With --phases computing is divided into forward, backward and update, and MB are what a worker sends.
"""
import argparse
import functools
import itertools
import json
import os
import pathlib
import platform
import random
import shlex
import statistics
import subprocess
import sys
import tempfile

from netns import SCRIPT, call, down, named, netns, skip

HERE = pathlib.Path(__file__).resolve().parent
named('lacddp')
OVERLAPS = ['none', 'backward', 'forward']
FIELDS = ['bytes_sent', 'exposed_ms', 'select_ms', 'comm_ms', 'step_ms', 'forward_ms', 'backward_ms', 'update_ms',
          'bytes_up_sum', 'bytes_down_sum', 'cpu_ms', 'server_cpu_ms']


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
        self.seconds = {}  # name: of each turn
        self.details = {}  # name: of each turn, means of the log's fields; ours only

    def add(self, name, value):
        self.seconds.setdefault(name, []).append(value)

    def ours(self, name, options):
        o = self.o
        steps = o.warmup + o.steps + 1
        with tempfile.TemporaryDirectory() as folder:
            log = f'{folder}/log.jsonl'
            if self.model.startswith('lstm-'):
                app, recipe = 'ptb', ['--data', write_text(folder, o.ranks * self.batch, steps), '--schedule', 'const', '--lr', '0.1']
            else:
                samples = max(1000, o.ranks * self.batch * steps)  # one epoch: no evaluation in between
                app = self.app()
                recipe = ['--data', f'synthetic:{samples},100' + (',1000' if app == 'imagenet' else ''), '--lr', '0.001', '--momentum', '0.9', '--weight-decay', '5e-4',
                          '--schedule', 'const', '--no-augment', '--no-shuffle']
            servers = servers_of(options, o.servers) if name != 'alone' else 0
            if servers and '--servers' not in options:
                options = ['--servers', str(servers), *options]
            elif '--servers 0' in ' '.join(options):
                options = ' '.join(options).replace('--servers 0', '').split()
            command = [SCRIPT, 'run', '-n', str(o.ranks + servers), f'{o.apps}/{app}', '--model', self.model, *recipe, '--batch', str(self.batch),
                       '--steps', str(steps), '--threads', str(o.threads), '--log', log, '--quiet', *options]
            if o.dry_run:
                print(shlex.join([*map(str, command), *(['--workers', str(o.ranks)] if name != 'alone' else [])]))
                return
            call(command, o.timeout)
            lines = [json.loads(line) for line in open(log) if '"step"' in line][o.warmup:-1]
        assert len(lines) == o.steps, f'{len(lines)} steps are left of the log, {o.steps} were asked for'
        mean = lambda field: statistics.fmean(line.get(field, 0) for line in lines)
        self.add(name, mean('step_ms') / 1e3)
        self.details.setdefault(name, []).append({f: mean(f) for f in FIELDS})

    def app(self):
        """By the images that the model takes."""
        models = json.loads(call([f'{self.o.apps}/laconic', 'models', '--json']))['models']
        channels, height, _ = next(m['input'] for m in models if m['model'] == self.model)
        return 'mnist' if channels == 1 else 'cifar10' if height == 32 else 'imagenet'

    def peer(self, hook):
        o = self.o
        out = call([SCRIPT, 'all', o.python, str(HERE / 'ddp_peer.py'), '--model', self.model, '--batch', str(self.batch),
                    '--steps', str(o.steps), '--warmup', str(max(4, o.warmup)), '--threads', str(o.threads), '--hook', hook, '--layout', self.layout,
                    *(['--compile'] if o.compile else [])],
                   o.timeout, env=torch_environment(o.threads))
        result = json.loads(out.splitlines()[-1])
        self.layout, self.version = result['layout'], result['version']
        self.add('DDP alone' if hook == 'none' else f'DDP {hook} alone', result['alone'][0])
        self.add('DDP' if hook == 'none' else f'DDP {hook}', result['ddp'][0])

    layout, version = 'auto', ''

    def turn(self, number=0):
        """Each of them once; another one begins in each turn, so that none always comes after the same."""
        extra = self.o.ours.split()
        sets = [('alone', ['--sync', 'none'])]
        sets += [(overlap, ['--overlap', overlap, *extra]) for overlap in self.o.overlaps]
        sets += [(name, [*options.split(), *extra]) for name, options in self.o.vs]
        runs = [functools.partial(self.ours, *one) for one in sets]
        runs += [functools.partial(self.peer, hook) for hook in self.o.hook if not self.o.dry_run]
        first = number % len(runs)
        for run in runs[first:] + runs[:first]:
            run()

    def result(self):
        middle = {name: statistics.median(values) for name, values in self.seconds.items()}
        r = {'model': self.model, 'batch': self.batch, 'total_batch': self.batch * self.o.ranks, 'ranks': self.o.ranks,
             'threads': self.o.threads, 'rate': self.rate, 'turns': len(self.seconds['alone']), 'seconds': middle, 'all': self.seconds,
             'details': self.details, 'layout': self.layout, 'torch': self.version}
        if self.o.vs:
            return r
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


def servers_of(options, default):
    """Ranks that only serve, of a set of options."""
    if '--servers' not in options:
        return default
    said = options[options.index('--servers') + 1]
    return 0 if said == 'colocated' else int(said)


def ratio_text(above, below):
    middle, low, high = interval([x / y if y else float('inf') for x, y in zip(above, below)])
    return f'{middle:.2f} ({low:.2f} … {high:.2f})' if len(above) > 1 else f'{middle:.2f}'


def server_rows(o, r):
    """With --servers: a line for each set."""
    rows = []
    values = lambda name, field: [d[field] for d in r['details'][name]]
    first = o.vs[0][0]
    for name in ['alone', *(n for n, _ in o.vs)]:
        m = {f: statistics.median(values(name, f)) for f in FIELDS}
        alone = name == 'alone'
        ms = lambda field: f'{m[field]:.0f}' if m[field] >= 20 else f'{m[field]:.1f}'
        computing = [ms(f) for f in ('forward_ms', 'backward_ms', 'update_ms')] if o.phases else [
            f'{m["step_ms"] - m["exposed_ms"]:.0f}', ms('select_ms')]
        sent = [m['bytes_sent']] if o.phases else [m['bytes_up_sum'], m['bytes_down_sum']]
        rows.append([r['model'], str(r['batch']), r['rate'], name, ms('step_ms'),
                     '–' if alone else '1' if name == first else ratio_text(r['all'][name], r['all'][first]),
                     *computing, ms('exposed_ms'),
                     '–' if alone else '1' if name == first else ratio_text(values(name, 'exposed_ms'), values(first, 'exposed_ms')),
                     ms('cpu_ms'), ms('server_cpu_ms') if m['server_cpu_ms'] else '–', *(f'{b / 1e6:.3f}' for b in sent)])
    return rows


def set_rows(o, r):
    """With --vs: a line for each way of training."""
    ratio = lambda a, b: ratio_text(r['all'][a], r['all'][b])
    hooks = ['DDP' if h == 'none' else f'DDP {h}' for h in o.hook]
    best = min(hooks, key=lambda h: r['seconds'][h]) if hooks else None
    rows = []
    for name in ['alone', *(n for n, _ in o.vs), *(n for h in hooks for n in (f'{h} alone', h))]:
        theirs = name.startswith('DDP')
        middle = {f: statistics.median(d[f] for d in r['details'][name]) for f in r['details'][name][0]} if not theirs else None
        base = f'{name} alone' if theirs else 'alone'
        rows.append([r['model'], str(r['batch']), r['rate'], name, f'{1e3 * r["seconds"][name]:.0f}',
                     '1' if name.endswith('alone') else ratio(name, base),
                     ratio(best, name) if best and name != best and not name.endswith('alone') else '–',
                     f'{middle["bytes_sent"] / 1e6:.3f}' if middle else '–', f'{middle["exposed_ms"]:.0f}' if middle else '–',
                     f'{middle["select_ms"]:.0f}' if middle else '–'])
    return rows




def server_header(o):
    computing = ['forward, ms', 'backward', 'update'] if o.phases else ['computing, ms', 'choosing']
    return ['model', 'batch', 'rate', 'what', 'ms a step', 'to the first', *computing, 'waiting', 'to the first', 'CPU of a worker, ms',
            'of a server', *(['MB sent a worker'] if o.phases else ['MB up', 'MB down'])]


SET_HEADER = ['model', 'batch', 'rate', 'what', 'ms a step', 'to computing alone', 'best DDP / this', 'MB sent a rank', 'exposed, ms',
              'choosing, ms']


def write_text(folder, streams, steps):
    """Text of 10,000 different words (with <eos> and <unk>) for so many steps of so many streams; next to nothing to evaluate."""
    draw = random.Random(0)
    words = ['<unk>', *(f'w{i}' for i in range(9998))]
    count = max(20_000, streams * 35 * (steps + 1))
    for part, text in [('train', words + draw.choices(words, k=count)), ('valid', words[:100]), ('test', words[:100])]:
        with open(f'{folder}/{part}.txt', 'w') as file:
            for i in range(0, len(text), 20):
                file.write(' '.join(text[i:i + 20]) + '\n')
    return folder


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
    words = lambda text: [w for w in text.split(',') if w]
    parser.add_argument('apps', type=lambda p: str(pathlib.Path(p).resolve()))
    parser.add_argument('--model', type=words, default=['alexnet-32'])
    parser.add_argument('--batch', type=words, default=['32'])
    parser.add_argument('--total', action='store_true')
    parser.add_argument('--rate', type=words, default=['1gbit'])
    parser.add_argument('--ranks', type=int, default=4)
    parser.add_argument('--servers', type=int, default=0, help='further ranks for each --vs, on hosts of their own')
    parser.add_argument('--phases', action='store_true')
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--steps', type=int, default=10, help='that are timed, of each run')
    parser.add_argument('--warmup', type=int, default=4, help='steps before them')
    parser.add_argument('--turns', type=int, default=5)
    parser.add_argument('--overlaps', type=words, default=OVERLAPS)
    parser.add_argument('--hook', type=words, default=['none'])
    parser.add_argument('--compile', action='store_true', help='DDP may be faster by torch.compile: then that counts')
    parser.add_argument('--ours', default='', help='more options of ours, in one word')
    parser.add_argument('--vs', action='append', default=[], metavar='NAME: OPTIONS', help='a set of options; may be given again')
    parser.add_argument('--timeout', type=float, default=900, help='seconds that one run may take')
    parser.add_argument('--dry-run', action='store_true', help='print our commands, and leave')
    parser.add_argument('--markdown', action='store_true')
    parser.add_argument('--json', action='store_true')
    o = parser.parse_args()
    if any(':' not in text for text in o.vs):
        parser.error("--vs wants 'NAME: OPTIONS'")
    o.vs = [(name.strip(), options) for name, options in (text.split(':', 1) for text in o.vs)]
    if o.vs:
        o.overlaps = []
    elif 'forward' not in o.overlaps:
        parser.error('--overlaps must have forward: the ratio is of it')
    if o.servers < 0 or ((o.servers or o.phases) and not o.vs):
        parser.error('--servers and --phases want to know with --vs what to run')
    if any(int(b) < 1 for b in o.batch):
        parser.error('a batch has at least one sample')
    if o.total and any(int(b) % o.ranks for b in o.batch):
        parser.error(f'a total batch must be a multiple of {o.ranks}')
    if o.dry_run:
        for model, batch in itertools.product(o.model, o.batch):
            Case(o, model, int(batch) // o.ranks if o.total else int(batch), o.rate[0]).turn()
        return
    o.python = python_with_torch() if o.hook else None

    results = []
    try:
        split = o.phases or o.servers > 0
        netns('up', str(o.ranks + max([servers_of(t.split(), o.servers) for _, t in o.vs], default=0)), o.rate[0], timeout=60)
        header = server_header(o) if split else SET_HEADER if o.vs else ['model', 'batch', 'total', 'rate', *[f'{c}, ms' for c in columns(o)], 'forward / DDP',
                                          'against DDP', 'saved of it']
        if not o.json:
            cpu = next((l.split(': ')[1].strip() for l in open('/proc/cpuinfo') if l.startswith('model name')), platform.machine())
            print(f'{o.ranks} ranks in namespaces on {os.cpu_count()} cores ({cpu}), {o.threads} thread(s) a rank, '
                  f'{o.turns} turn(s) of {o.steps} steps\n')
            print('| ' + ' | '.join(header) + ' |' if o.markdown else '  '.join(header), flush=True)
            if o.markdown:
                print('|' + '---|' * len(header), flush=True)
        for rate, model, batch in itertools.product(o.rate, o.model, o.batch):
            netns('rate', rate, timeout=60)
            case = Case(o, model, int(batch) // o.ranks if o.total else int(batch), rate)
            for turn in range(o.turns):
                case.turn(turn)
                print(f'{model} {batch} {rate}: turn {turn + 1} of {o.turns}', file=sys.stderr, flush=True)
            results.append(case.result())
            if o.json:
                continue
            rows = server_rows if split else set_rows if o.vs else lambda *both: [row(*both)]
            for cells in rows(o, results[-1]):
                padded = [c.rjust(len(h)) for c, h in zip(cells, header)]
                print('| ' + ' | '.join(cells) + ' |' if o.markdown else '  '.join(padded), flush=True)
        if o.json:
            print(json.dumps(results))
        elif o.hook:
            print('\nPyTorch ' + '; '.join(f'{r["torch"]}, {r["model"]} at batch {r["batch"]} {r["layout"]}' for r in results))
    finally:
        down()


if __name__ == '__main__':
    main()
