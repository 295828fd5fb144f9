#!/usr/bin/env python3
"""Where the time of a recorded training's steps went, in ms a step: trace_parts.py TRACE

A column for each rank that computes, medians over its steps. What lies inside of another span counts for itself alone;
evaluation is left out."""
import collections
import json
import statistics
import sys

lines = collections.defaultdict(list)  # by rank and number
computing = {}  # number of the line, by rank
for event in json.load(open(sys.argv[1]))['traceEvents']:
    line = event['pid'], event['tid']
    if event['ph'] == 'X':
        lines[line].append((event['ts'], -event['dur'], event['cat'], event['name']))
    elif event['ph'] == 'M' and event['name'] == 'thread_name' and event['args']['name'].startswith('compute'):
        computing.setdefault(event['pid'], event['tid'])

table = collections.defaultdict(dict)  # rank -> ms, by category
for rank, number in sorted(computing.items()):
    spans, starts, open_spans, first = sorted(lines[rank, number]), [], [], None
    steps = []  # ms by category
    for begin, minus, category, name in spans:
        while open_spans and open_spans[-1][0] <= begin + 0.0015:
            open_spans.pop()
        evaluates = category == 'evaluation' or (open_spans and open_spans[-1][1] == 'evaluation')
        first = first or (name if category == 'forward' and not evaluates else None)
        if category == 'forward' and name == first and not evaluates:
            starts.append(begin)
            steps.append(collections.Counter())
        if steps and not (evaluates and category != 'evaluation'):
            steps[-1][category] -= minus / 1e3
            if open_spans:
                steps[-1][open_spans[-1][1]] += minus / 1e3
        open_spans.append((begin - minus, 'evaluation' if evaluates else category))
    starts.append(max(begin - minus for begin, minus, category, _ in spans if category != 'evaluation'))
    for i, step in enumerate(steps):
        whole = (starts[i + 1] - starts[i]) / 1e3 - step.pop('evaluation', 0)
        step['other'] = whole - sum(step.values())
        step['a whole step'] = whole
    for category in {c for step in steps for c in step}:
        table[category][rank] = statistics.median(step[category] for step in steps)

order = ['forward', 'backward', 'gather', 'select', 'pack', 'wait', 'update', 'other', 'a whole step']
print('| ms |', ' | '.join(f'rank {rank}' for rank in sorted(computing)), '|\n|---|' + '---:|' * len(computing))
for category in sorted(table, key=lambda c: order.index(c) if c in order else 4):
    print(f'| {category} |', ' | '.join(f'{table[category].get(rank, 0):.2f}' for rank in sorted(computing)), '|')
