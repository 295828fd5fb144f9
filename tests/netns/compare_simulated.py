#!/usr/bin/env python3
"""Steps that `laconic simulate` predicts, against measured ones on the same cables.

    compare_simulated.py APPS --model alexnet-32,resnet20 --batch 16 --rate 1gbit,100mbit [--ranks 2] [--steps 10] [--turns 3]
                         --vs "dense: --sync allreduce" --vs "RedSync: --sync redsync" ... [--markdown | --json]
    compare_simulated.py APPS --case alexnet-32,1gbit,2 --case lenet,100mbit,8,20,10,3 --vs ...   (MODEL,RATE,RANKS,STEPS,WARMUP,TURNS)

For each model and rate a short training with --plan auto leaves a log. From this log alone `laconic simulate --replay` predicts a
step of each set. Then compare_ddp.py measures it. The last line has the errors' median, 95th percentile and largest, and for how
many pairs of sets, of one model and rate, the faster one is faster in both. As root; exit status 77 where the network cannot be had.
"""
import argparse
import itertools
import json
import math
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

from compare_ddp import Case, interval
from netns import SCRIPT, call, down, named, netns

named('lacsim')


def predicted(o, model, batch, rate):
    """Seconds a step, by set."""
    case = Case(o, model, batch, rate)
    with tempfile.TemporaryDirectory() as folder:
        log = f'{folder}/log.jsonl'
        call([SCRIPT, 'run', '-n', str(o.ranks), f'{o.apps}/{case.app()}', '--model', model, '--data', f'synthetic:{max(1000, 30 * o.ranks * batch)},100',
              '--batch', str(batch), '--steps', '3', '--threads', str(o.threads), '--eval-every', '0', '--no-augment', '--quiet', '--plan', 'auto',
              '--log', log], o.timeout)
        words = [f'{o.apps}/laconic', 'simulate', '--replay', log, '--json', *o.simulated.split()]
        for name, options in o.vs:
            words += ['--vs', f'{name}: {options}']
        return {row['set']: row['step_ms'] / 1e3 for row in json.loads(call(words, o.timeout).splitlines()[-1])['rows']}


def measured(o, model, batch, rate):
    """Seconds a step by set, of all turns."""
    case = Case(o, model, batch, rate)
    for turn in range(o.turns):
        for name, options in o.vs:
            case.ours(name, options.split())
        print(f'{model} {batch} {rate} {o.ranks}: turn {turn + 1} of {o.turns}', file=sys.stderr, flush=True)
    return case.seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: [w for w in text.split(',') if w]
    parser.add_argument('apps', type=lambda p: str(pathlib.Path(p).resolve()))
    parser.add_argument('--case', type=words, action='append', help='instead of --model, --rate and --ranks; may be given again')
    parser.add_argument('--model', type=words, default=['alexnet-32'])
    parser.add_argument('--batch', type=int, default=16)
    parser.add_argument('--rate', type=words, default=['1gbit'])
    parser.add_argument('--ranks', type=int, default=2)
    parser.add_argument('--servers', type=int, default=0)
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--steps', type=int, default=10, help='that are timed, of each run')
    parser.add_argument('--warmup', type=int, default=4, help='steps before them')
    parser.add_argument('--turns', type=int, default=3)
    parser.add_argument('--simulated', default='', help='more options of the simulation, in one word')
    parser.add_argument('--vs', action='append', required=True, metavar='NAME: OPTIONS', help='a set of options; may be given again')
    parser.add_argument('--timeout', type=float, default=900, help='seconds that one run may take')
    parser.add_argument('--dry-run', action='store_true', help='print the measured commands, and leave')
    parser.add_argument('--markdown', action='store_true')
    parser.add_argument('--json', action='store_true')
    o = parser.parse_args()
    if any(':' not in text for text in o.vs):
        parser.error("--vs wants 'NAME: OPTIONS'")
    o.vs = [(name.strip(), options) for name, options in (text.split(':', 1) for text in o.vs)]
    cases = o.case or [[model, rate] for rate, model in itertools.product(o.rate, o.model)]
    usual = [None, None, o.ranks, o.steps, o.warmup, o.turns]
    cases = [(*case[:2], *map(int, case[2:] + usual[len(case):])) for case in cases]
    if o.dry_run:
        for model, rate, o.ranks, *_ in cases:
            for name, options in o.vs:
                Case(o, model, o.batch, rate).ours(name, options.split())
        return
    rows, pairs, kept = [], 0, 0
    header = ['model', 'batch', 'rate', 'ranks', 'what', 'simulated, ms', 'measured, ms', 'off']
    try:
        if not o.json:
            cpu = next((l.split(': ')[1].strip() for l in open('/proc/cpuinfo') if l.startswith('model name')), platform.machine())
            print(f'Ranks in namespaces on {os.cpu_count()} cores ({cpu}), {o.threads} thread(s) a rank\n')
            print('| ' + ' | '.join(header) + ' |' if o.markdown else '  '.join(header), flush=True)
            if o.markdown:
                print('|' + '---|' * len(header), flush=True)
        for model, rate, o.ranks, o.steps, o.warmup, o.turns in cases:
            netns('down', timeout=60)
            netns('up', str(o.ranks), rate, timeout=60)
            before, after = predicted(o, model, o.batch, rate), measured(o, model, o.batch, rate)
            middle = {}
            for name, _ in o.vs:
                value, low, high = interval(after[name])
                middle[name] = value
                off = before[name] / value - 1
                rows.append({'model': model, 'batch': o.batch, 'rate': rate, 'ranks': o.ranks, 'what': name, 'simulated': before[name], 'measured': value, 'off': off})
                cells = [model, str(o.batch), rate, str(o.ranks), name, f'{1e3 * before[name]:.1f}', f'{1e3 * value:.1f} ({1e3 * low:.1f} … {1e3 * high:.1f})', f'{100 * off:+.1f} %']
                if not o.json:
                    print('| ' + ' | '.join(cells) + ' |' if o.markdown else '  '.join(cells), flush=True)
            for a, b in itertools.combinations(middle, 2):
                pairs, kept = pairs + 1, kept + ((middle[a] < middle[b]) == (before[a] < before[b]))
        sizes = sorted(abs(row['off']) for row in rows)
        if o.json:
            print(json.dumps(rows))
        else:
            print(f'\n{len(rows)} steps: off by {100 * statistics.median(sizes):.1f} % in the median, by {100 * sizes[math.ceil(0.95 * len(sizes)) - 1]:.1f} % '
                  f'for 95 of 100, by {100 * sizes[-1]:.1f} % at most; '
                  f'{kept} of {pairs} pairs in the measured order')
    finally:
        down()


if __name__ == '__main__':
    main()
