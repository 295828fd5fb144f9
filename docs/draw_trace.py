#!/usr/bin/env python3
"""Draws a trace (--trace FILE) as SVG, for those who read docs where no trace viewer is at hand. Standard library only.

    python3 docs/draw_trace.py TRACE.json [TITLE=OTHER.json ...] -o picture.svg [--steps 3:4] [--ranks 0,1]

Several traces are drawn below one another at the same scale of time, each from where its step begins. --steps 3:4 shows steps
3 and 4 (counted from 1) and how the next one begins. Each rank has two rows: what its computing thread did, and its messages
from where they were handed to the network to where they came. Blue lines lead from the backward that finished gradients to
their first message, green ones from the last message to the update.
"""
import argparse
import collections
import html
import json

COLOURS = {'forward': '#4c8dd6', 'backward': '#2c5f9e', 'update': '#58a55c', 'wait': '#e2574c', 'message': '#f2b134',
           'evaluation': '#9b8ec4', 'select': '#8d6e63'}
WORDS = {'forward': 'forward', 'backward': 'backward', 'update': 'update', 'wait': 'waiting for a message', 'message': 'message on its way',
         'evaluation': 'evaluation', 'select': 'selection'}
LEFT, WIDTH, HEIGHT, GAP = 110, 1100, 22, 10


class Trace:
    def __init__(self, path):
        events = json.load(open(path))['traceEvents']
        self.names = {(e['pid'], e['tid']): e['args']['name'] for e in events if e['ph'] == 'M' and e['name'] == 'thread_name'}
        self.spans = [e for e in events if e['ph'] == 'X']
        self.arrows = collections.defaultdict(list)
        for e in events:
            if e['ph'] in 'stf':
                self.arrows[e['name'], e['id']].append(e)
        self.by_line = collections.defaultdict(list)
        for e in self.spans:
            self.by_line[e['pid'], e['tid']].append(e)
        for places in self.arrows.values():
            places.sort(key=lambda e: e['ts'])

    def around(self, arrow, category=None):
        """The innermost span that a place of an arrow lies in."""
        line = self.by_line[arrow['pid'], arrow['tid']]
        inside = [e for e in line if e['ts'] - 0.001 <= arrow['ts'] <= e['ts'] + e['dur'] + 0.001 and category in (None, e['cat'])]
        return min(inside, key=lambda e: e['dur'])

    def operation(self, points):
        """The exchange that a gradient's arrow passes through."""
        return next(((e['pid'], e['name'], e['ts']) for e in map(self.around_message, points) if e), None)

    def around_message(self, arrow):
        try:
            return self.around(arrow, 'message')
        except ValueError:
            return None

    def gradients(self):
        return [points for (kind, _), points in self.arrows.items() if kind == 'gradient']

    def messages(self):
        """Every message between two ranks, from where it was handed to the network to where it came."""
        found = []
        for (kind, _), points in self.arrows.items():
            if kind != 'message':
                continue
            here, there = points[0], points[-1]
            exchange, hop = self.around_message(here), self.around(there, 'hop')
            other = self.around_message(there)
            layer = exchange['name'].replace('allreduce ', '')
            for e in {exchange['pid']: exchange, other['pid']: other}.values():
                found.append({'cat': 'message', 'name': exchange['name'], 'layer': layer, 'ts': here['ts'], 'dur': there['ts'] - here['ts'],
                              'from': here['pid'] if e is exchange else None, 'to': there['pid'] if e is other else None,
                              'operation': (e['pid'], e['name'], e['ts']), 'args': hop.get('args', {})})
        return found

    def step_starts(self):
        """When each step's forward begins, on rank 0: where its first layer comes again."""
        forward = sorted((e['ts'], e['name']) for e in self.spans if e['cat'] == 'forward' and e['pid'] == 0)
        if not forward:
            raise SystemExit('draw_trace: the trace has no forward of rank 0')
        return [ts for ts, name in forward if name == forward[0][1]]


def escape(text):
    return html.escape(text, quote=True)


class Picture:
    def __init__(self):
        self.lines, self.y = [], 8

    def add(self, text):
        self.lines.append(text)

    def text(self, x, y, text, size=11, anchor='start', colour='#222', weight='normal'):
        self.add(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}" font-weight="{weight}">{escape(text)}</text>')

    def bar(self, x, y, width, height, colour, title):
        self.add(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.6):.1f}" height="{height}" fill="{colour}"><title>{escape(title)}</title></rect>')

    def svg(self):
        height = self.y + 8
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{height:.0f}" viewBox="0 0 {LEFT + WIDTH + 20} {height:.0f}" '
                'font-family="Helvetica, Arial, sans-serif"><rect width="100%" height="100%" fill="#fff"/>\n' + '\n'.join(self.lines) + '\n</svg>\n')


def legend(picture, categories):
    x = LEFT
    for category in [c for c in COLOURS if c in categories]:
        picture.bar(x, picture.y, 12, 12, COLOURS[category], WORDS[category])
        picture.text(x + 16, picture.y + 10, WORDS[category])
        x += 34 + 6.2 * len(WORDS[category])
    picture.y += 26


def draw(picture, trace, title, begin, span, ranks, scale):
    end = begin + span
    x_of = lambda ts: LEFT + (min(max(ts, begin), end) - begin) * scale
    picture.text(8, picture.y + 12, title, size=13, weight='bold')
    picture.y += 22
    top, computing, sending = picture.y, {}, {}
    messages = trace.messages()
    for rank in ranks:
        tid = next(t for (p, t), name in trace.names.items() if p == rank and name == 'compute')
        row(picture, f'rank {rank} computes')
        open_ends = []
        for e in sorted((e for e in trace.spans if (e['pid'], e['tid']) == (rank, tid)), key=lambda e: (e['ts'], -e['dur'])):
            while open_ends and open_ends[-1] <= e['ts'] + 0.001:
                open_ends.pop()
            depth = len(open_ends)
            open_ends.append(e['ts'] + e['dur'])
            if e['ts'] < end and e['ts'] + e['dur'] > begin:
                label = e['name'].replace('waits for allreduce ', '') if depth == 0 or e['cat'] == 'wait' else ''
                bar(picture, x_of(e['ts']), x_of(e['ts'] + e['dur']), 5 * min(depth, 2), e, label)
        computing[rank] = picture.y
        picture.y += HEIGHT + GAP
        row(picture, f'rank {rank} sends')
        for m in joined([m for m in messages if m['from'] == rank], 1 / scale):
            if m['ts'] < end and m['ts'] + m['dur'] > begin:
                bar(picture, x_of(m['ts']), x_of(m['ts'] + m['dur']), 0, m, m['layer'])
        sending[rank] = picture.y
        picture.y += HEIGHT + 3 * GAP
    first = ranks[0]
    for points in trace.gradients():
        if points[0]['pid'] != first:
            continue
        carried = [m for m in messages if m['operation'] == trace.operation(points)]
        left = min((m['ts'] for m in carried if m['from'] == first), default=None)
        came = max((m['ts'] + m['dur'] for m in carried if m['to'] == first), default=None)
        update = next((e['ts'] for e in points if trace.around(e)['cat'] == 'update'), None)
        bottom, below = computing[first] + HEIGHT, sending[first]
        for a, b, up in ((points[0]['ts'], left, False), (came, update, True)):
            if a is None or b is None or not (begin <= a < end and begin <= b < end):
                continue
            y1, y2 = (below, bottom) if up else (bottom, below)
            picture.add(f'<path d="M{x_of(a):.1f} {y1} L{x_of(b):.1f} {y2}" stroke="{"#2e7d32" if up else "#2c5f9e"}" stroke-width="1"/>')
    for start in trace.step_starts():
        if begin <= start <= end:
            picture.add(f'<line x1="{x_of(start):.1f}" x2="{x_of(start):.1f}" y1="{top - 4}" y2="{picture.y}" stroke="#000" stroke-dasharray="3 3"/>')
    tick = next(t for t in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 1e9) if span / 1000 / t <= 12)
    for i in range(int(span / 1000 / tick) + 1):
        picture.text(x_of(begin + 1000 * i * tick), picture.y + 6, f'{i * tick:g} ms', size=9, anchor='middle', colour='#666')
    picture.y += 24


def joined(messages, gap):
    """Messages of one exchange that follow each other within `gap` as one bar."""
    bars = []
    for m in sorted(messages, key=lambda m: m['ts']):
        last = bars[-1] if bars else None
        if last and last['operation'] == m['operation'] and m['ts'] <= last['ts'] + last['dur'] + gap:
            last['dur'] = max(last['dur'], m['ts'] + m['dur'] - last['ts'])
            last['args'] = {'bytes': last['args'].get('bytes', 0) + m['args'].get('bytes', 0)}
        else:
            bars.append(dict(m))
    for before, after in zip(bars, bars[1:]):  # the network takes up the next while the last of the one before arrives
        before['dur'] = min(before['dur'], after['ts'] - before['ts'])
    return bars


def row(picture, name):
    picture.text(LEFT - 6, picture.y + 15, name, size=11, anchor='end')
    picture.add(f'<rect x="{LEFT}" y="{picture.y}" width="{WIDTH}" height="{HEIGHT}" fill="#f3f3f3"/>')


def bar(picture, x, right, inset, e, label):
    if right - x < 0.4:
        return
    size = e.get('args', {}).get('bytes', -1)
    text = f'{e["name"]}: {e["dur"] / 1000:.2f} ms' + (f', {size:,} bytes' if size >= 0 else '')
    picture.bar(x, picture.y + inset, right - x, HEIGHT - inset, COLOURS.get(e['cat'], '#aaa'), text)
    short = label.replace('.weight', '').replace('classifier.', 'fc ').replace('features.', 'conv ')
    if right - x > 5.6 * len(short) + 4 and short:
        picture.text(x + 2, picture.y + 14, short, size=9, colour='#422' if e['cat'] == 'message' else '#fff')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('traces', nargs='+', metavar='[TITLE=]TRACE.json')
    parser.add_argument('-o', '--output', required=True)
    parser.add_argument('--steps', default='3:4')
    parser.add_argument('--ranks', default='0,1')
    o = parser.parse_args()
    first, last = (int(n) for n in o.steps.split(':'))
    ranks = [int(r) for r in o.ranks.split(',')]
    drawn = []
    for argument in o.traces:
        title, _, path = argument.rpartition('=')
        trace = Trace(path)
        starts = trace.step_starts()
        if not 1 <= first <= last < len(starts):
            raise SystemExit(f'draw_trace: {path} has {len(starts)} steps; --steps A:B shows A to B and how the next one begins')
        begin, end = starts[first - 1], starts[last]
        drawn.append((trace, f'{title + ": " if title else ""}{(end - begin) / 1000 / (last - first + 1):.0f} ms a step', begin, end - begin))
    longest = max(span for *_, span in drawn) * 1.03
    picture = Picture()
    legend(picture, {e['cat'] for trace, *_ in drawn for e in trace.spans if e['cat'] in COLOURS} - {'evaluation'})
    for trace, title, begin, span in drawn:
        draw(picture, trace, title, begin, longest, ranks, WIDTH / longest)
    with open(o.output, 'w') as f:
        f.write(picture.svg())


if __name__ == '__main__':
    main()
