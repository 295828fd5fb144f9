#!/usr/bin/env python3
"""Draws a trace (--trace FILE) as SVG, for those who read docs where no trace viewer is at hand. Standard library only.

    python3 docs/draw_trace.py TRACE.json [TITLE=OTHER.json ...] -o picture.svg [--steps 3:4] [--ranks 0,1]

Several traces are drawn below one another at the same scale of time, each from where its step begins. --steps 3:4 shows steps
3 and 4 (counted from 1) and the next step's beginning. A row is a thread of a rank; colours are what ran; inside a message's
bar a division is a message that came from another rank. Curves lead from the backward that finished gradients to their
message, and from there to their update. Where a line is empty nothing ran: in the upper trace of docs/trace-overlap.svg the
computing line waits while messages pass, in the lower one messages pass while it computes.
"""
import argparse
import collections
import html
import json

COLOURS = {'forward': '#4c8dd6', 'backward': '#2c5f9e', 'update': '#58a55c', 'wait': '#e2574c', 'message': '#f2b134', 'hop': '#d89a1d',
           'evaluation': '#9b8ec4', 'select': '#8d6e63'}
WORDS = {'forward': 'forward', 'backward': 'backward', 'update': 'update', 'wait': 'waiting for a message', 'message': 'exchange',
         'hop': 'a message came', 'evaluation': 'evaluation', 'select': 'selection'}
LEFT, WIDTH, HEIGHT, GAP = 130, 1100, 20, 4


class Trace:
    def __init__(self, path):
        events = json.load(open(path))['traceEvents']
        self.names = {(e['pid'], e['tid']): e['args']['name'] for e in events if e['ph'] == 'M' and e['name'] == 'thread_name'}
        self.spans = [e for e in events if e['ph'] == 'X']
        self.arrows = collections.defaultdict(list)
        for e in events:
            if e['ph'] in 'stf':
                self.arrows[e['name'], e['id']].append(e)
        for places in self.arrows.values():
            places.sort(key=lambda e: e['ts'])

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
    x_of = lambda ts: LEFT + (ts - begin) * scale
    picture.text(8, picture.y + 12, title, size=13, weight='bold')
    picture.y += 20
    places = {}
    top = picture.y
    for (pid, tid), name in sorted(trace.names.items()):
        spans = [e for e in trace.spans if (e['pid'], e['tid']) == (pid, tid) and e['ts'] < end and e['ts'] + e['dur'] > begin]
        if pid not in ranks or not spans:
            continue
        picture.text(LEFT - 6, picture.y + 14, f'rank {pid} {name}', size=10, anchor='end')
        picture.add(f'<line x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{picture.y + HEIGHT + 1}" y2="{picture.y + HEIGHT + 1}" stroke="#ddd"/>')
        open_ends = []
        for e in sorted(spans, key=lambda e: (e['ts'], -e['dur'])):
            while open_ends and open_ends[-1] <= e['ts'] + 0.001:
                open_ends.pop()
            depth = len(open_ends)
            open_ends.append(e['ts'] + e['dur'])
            x, right = x_of(max(e['ts'], begin)), x_of(min(e['ts'] + e['dur'], end))
            if right - x < 0.4 and e['cat'] != 'hop':
                continue
            size = e.get('args', {}).get('bytes')
            label = f'{e["name"]}: {e["dur"] / 1000:.2f} ms' + (f', {size:,} bytes' if size else '')
            if e['cat'] == 'hop':  # a division where the message came
                if e['ts'] + e['dur'] < end:
                    picture.bar(right - 0.8, picture.y + 12, 0.8, HEIGHT - 12, '#8a5a00', label)
                continue
            inset = 5 * min(depth, 2)
            picture.bar(x, picture.y + inset, right - x, HEIGHT - inset, COLOURS.get(e['cat'], '#aaa'), label)
            short = e['name'].replace('allreduce ', '').replace('waits for ', '')
            if right - x > 6.0 * len(short) + 4 and (depth == 0 or e['cat'] == 'wait'):
                picture.text(x + 2, picture.y + 11 + (6 if depth else 0), short, size=9, colour='#fff' if e['cat'] != 'message' else '#422')
        places[pid, tid] = picture.y
        picture.y += HEIGHT + GAP
    for (kind, _), points in trace.arrows.items():
        if kind != 'gradient' or points[0]['pid'] != min(ranks):
            continue
        seen = [(x_of(e['ts']), places[e['pid'], e['tid']]) for e in points if begin <= e['ts'] < end and (e['pid'], e['tid']) in places]
        for (x1, y1), (x2, y2) in zip(seen, seen[1:]):
            if y1 == y2:
                continue
            y1, y2 = (y1 + HEIGHT, y2) if y2 > y1 else (y1, y2 + HEIGHT)
            middle = (y1 + y2) / 2
            picture.add(f'<path d="M{x1:.1f} {y1} C{x1:.1f} {middle} {x2:.1f} {middle} {x2:.1f} {y2}" fill="none" stroke="#333" stroke-width="0.7" opacity="0.55"/>')
    for start in trace.step_starts():
        if begin <= start < end:
            picture.add(f'<line x1="{x_of(start):.1f}" x2="{x_of(start):.1f}" y1="{top - 4}" y2="{picture.y}" stroke="#000" stroke-dasharray="3 3"/>')
    tick = next(t for t in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 1e9) if span / 1000 / t <= 12)
    for i in range(int(span / 1000 / tick) + 1):
        picture.text(x_of(begin + 1000 * i * tick), picture.y + 10, f'{i * tick:g} ms', size=9, anchor='middle', colour='#666')
    picture.y += 24


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
    legend(picture, {e['cat'] for trace, *_ in drawn for e in trace.spans if e['cat'] != 'hop'})
    for trace, title, begin, span in drawn:
        draw(picture, trace, title, begin, longest, ranks, WIDTH / longest)
    with open(o.output, 'w') as f:
        f.write(picture.svg())


if __name__ == '__main__':
    main()
