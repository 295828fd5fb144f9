#!/usr/bin/env python3
"""Draws two steps of each of some traces (--trace) below one another, on one axis of time:

    for o in none forward; do
      build/apps/cifar10 --data synthetic --model alexnet-32 --batch 160 --steps 8 --workers 2 --threads 1 \\
        --link 1gbit,50us --overlap $o --eval-every 0 --trace $o.json
    done
    docs/figures/draw_steps.py '--overlap none=none.json' '--overlap forward=forward.json' > docs/trace-overlap.svg

Each rank has a row for what it computes, and one for when a message of its is on its way."""
import json
import sys

COLOURS = {'forward': '#4c8dd6', 'backward': '#2c5f9e', 'update': '#58a55c', 'wait': '#e2574c', 'hop': '#f2b134'}
SAID = {'wait': 'waiting for a message', 'hop': 'message on its way'}
LEFT, WIDTH, ROW = 130, 1080, 24  # pixels


def two_steps(path):
    """returns  the rows, {(rank, of messages): [(category, begin, end)]} in milliseconds; when a step in the middle of
    the trace begins; and when the step after the next one does"""
    with open(path) as file:
        spans = [e for e in json.load(file)['traceEvents'] if e['ph'] == 'X' and e['cat'] in COLOURS]
    found, begins, first_layer = {}, [], None
    for event in sorted(spans, key=lambda e: e['ts']):
        rank, category, begin = event['pid'], event['cat'], event['ts'] / 1e3
        found.setdefault((rank, category == 'hop'), []).append((begin, begin + event['dur'] / 1e3, category))
        if rank == 0 and category == 'forward':
            first_layer = first_layer or event['name']
            if event['name'] == first_layer:
                begins.append(begin)
    middle = len(begins) // 2
    return {row: merged(row_spans) for row, row_spans in sorted(found.items())}, begins[middle - 1], begins[middle + 1]


def merged(spans):
    """Joins neighbours of one category that less than half a millisecond lies between."""
    joined = []
    for begin, end, category in spans:
        if joined and joined[-1][0] == category and begin - joined[-1][2] < 0.5:
            joined[-1][2] = max(joined[-1][2], end)
        else:
            joined.append([category, begin, end])
    return joined


def main():
    panels = [(title, *two_steps(path)) for title, path in (argument.split('=', 1) for argument in sys.argv[1:])]
    scale = WIDTH / max(end - begin for _, _, begin, end in panels)
    out, y, x = [], 48, LEFT
    for category, colour in COLOURS.items():
        said = SAID.get(category, category)
        out.append(f'<rect x="{x}" y="8" width="12" height="12" fill="{colour}"/><text x="{x + 16}" y="18">{said}</text>')
        x += 40 + 7 * len(said)
    for title, found, first, last in panels:
        out.append(f'<text x="8" y="{y}" font-weight="bold">{title}: {(last - first) / 2:.0f} ms a step</text>')
        y += 10
        for (rank, messages), spans in found.items():
            out.append(f'<text x="{LEFT - 6}" y="{y + 14}" text-anchor="end">rank {rank} '
                       f'{"sends" if messages else "computes"}</text>')
            out.append(f'<rect x="{LEFT}" y="{y}" width="{WIDTH}" height="{ROW - 4}" fill="#f3f3f3"/>')
            for category, begin, end in spans:
                begin, end = max(begin, first), min(end, last)
                if begin < end:
                    out.append(f'<rect x="{LEFT + scale * (begin - first):.1f}" y="{y}" width="{scale * (end - begin):.1f}" '
                               f'height="{ROW - 4}" fill="{COLOURS[category]}"/>')
            y += ROW
        y += 30
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 20} {y - 20}" font-family="sans-serif" '
          'font-size="11">\n<rect width="100%" height="100%" fill="#fff"/>')
    print('\n'.join([*out, '</svg>']))


if __name__ == '__main__':
    main()
