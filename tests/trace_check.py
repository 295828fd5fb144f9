#!/usr/bin/env python3
"""Trains with --trace on several ranks and reads the file: trace_check.py APPS [NETNS.SH].

Spans of one line nest or lie side by side; every arrow has one beginning and one end, in spans, in the order of time; gradients lead
from backward through a message and an update to a forward; messages lead from one rank to another; bytes of hops are bytes
of messages. With workers as threads, under MPI, and with NETNS.SH between network namespaces. Exit status 77: skipped.
"""
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile

APPS = sys.argv[1]
RANKS = 3


def spans_by_line(events):
    lines = collections.defaultdict(list)
    for e in events:
        if e['ph'] == 'X':
            lines[e['pid'], e['tid']].append((e['ts'], e['ts'] + e['dur'], e))
    for line in lines.values():
        line.sort(key=lambda s: (s[0], -s[1]))
    return lines


def check_nesting(lines):
    slack = 0.0015  # the file has times to 1 ns
    for place, line in lines.items():
        open_spans = []
        for begin, end, e in line:
            while open_spans and open_spans[-1][1] <= begin + slack:
                open_spans.pop()
            assert not open_spans or end <= open_spans[-1][1] + slack, f'{place}: {e["name"]} overlaps {open_spans[-1][2]["name"]}'
            open_spans.append((begin, end, e))


def around(lines, arrow):
    """The innermost span that an end of an arrow lies in."""
    found = [s for s in lines[arrow['pid'], arrow['tid']] if s[0] - 0.0005 <= arrow['ts'] <= s[1] + 0.0005]
    assert found, f'an arrow lies in no span: {arrow}'
    return min(found, key=lambda s: s[1] - s[0])[2]


def check(path, ranks):
    events = json.load(open(path))['traceEvents']
    lines = spans_by_line(events)
    check_nesting(lines)
    names = {(e['pid'], e['tid']): e['args']['name'] for e in events if e['name'] == 'thread_name'}
    assert set(names) >= set(lines), 'a line has no name'
    for rank in range(ranks):
        threads = [n for (pid, _), n in names.items() if pid == rank]
        assert 'compute' in threads and any(n.startswith('communication') for n in threads), f'rank {rank} has {threads}'

    arrows = collections.defaultdict(list)
    for e in events:
        if e['ph'] in 'stf':
            arrows[e['name'], e['id']].append(e)
    ends = collections.Counter()
    for (kind, name), places in arrows.items():
        places.sort(key=lambda e: (e['ts'], 'stf'.index(e['ph'])))
        phases = ''.join(e['ph'] for e in places)
        assert phases[0] == 's' and phases[-1] == 'f' and set(phases[1:-1]) <= {'t'}, f'{kind} {name}: {phases}'
        where = [around(lines, e) for e in places]
        if kind == 'message':
            assert len(places) == 2 and places[0]['pid'] != places[1]['pid'], f'message {name} stays on its rank'
            assert where[1]['cat'] == 'hop' and where[1]['name'] == f'from rank {places[0]["pid"]}', where[1]
        else:
            assert len({e['pid'] for e in places}) == 1
        ends[kind, where[0]['cat'], where[-1]['cat']] += 1
        if kind == 'gradient' and where[-1]['cat'] == 'forward':
            assert {'update'} <= {w['cat'] for w in where}, where
    messages = [e for e in events if e['ph'] == 'X' and e['cat'] == 'message']
    hops = [e for e in events if e['ph'] == 'X' and e['cat'] == 'hop']
    assert sum(e['args']['bytes'] for e in messages) == sum(e['args']['bytes'] for e in hops) > 0, 'what was sent is not what came'
    assert sum(n for (kind, _, _), n in ends.items() if kind == 'message') == len(hops)
    through = ends['gradient', 'backward', 'forward']
    assert through > 0, ends
    print(f'  {len(events)} events, {len(hops)} hops, {through} gradients into the next forward', flush=True)


def main():
    train = ['--data', 'synthetic:400,40', '--steps', '8', '--batch', '8', '--threads', '1', '--quiet', '--trace']
    program = f'{APPS}/mnist'
    with tempfile.TemporaryDirectory() as folder:
        path = f'{folder}/trace.json'
        cases = {'threads': [program, '--workers', str(RANKS), *train, path]}
        if len(sys.argv) > 2:
            netns = sys.argv[2]
            os.environ['LACONIC_NET'] = f'lactrace{os.getpid()}'
            up = subprocess.run([netns, 'up', str(RANKS), '100mbit'])
            if up.returncode == 77:
                sys.exit(77)
            cases = {'namespaces': [netns, 'run', '-n', str(RANKS), program, *train, path]}
        elif shutil.which('mpirun') and os.path.exists(f'{APPS}/laconic'):
            cases['MPI'] = [f'{APPS}/laconic', 'launch', '-n', str(RANKS), program, *train, path]
        try:
            for name, command in cases.items():
                print(name, flush=True)
                subprocess.run(command, check=True, timeout=800)
                check(path, RANKS)
        finally:
            if len(sys.argv) > 2:
                subprocess.run([netns, 'down'])


if __name__ == '__main__':
    main()
