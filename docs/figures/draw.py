#!/usr/bin/env python3
"""Draws docs/figures/time-to-accuracy.svg from time-to-accuracy.csv beside it: seconds to one accuracy by method."""
import csv
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
SHOWN = {'lenet': 'LeNet, 100 Mb/s', 'resnet20': 'ResNet-20, 100 Mb/s'}
LEFT, WIDTH, ROW, TOP = 190, 430, 20, 46  # pixels
LONGEST = 560  # seconds, at the right end


def rows(model):
    with open(HERE / 'time-to-accuracy.csv') as lines:
        found = csv.DictReader(line for line in lines if not line.startswith('#'))
        return [(r['set'], r['s to the target']) for r in found if (r['model'], r['rate']) == (model, '100mbit')]


def panel(model, y, out):
    out.append(f'<text x="10" y="{y - 8}" font-weight="bold">{SHOWN[model]}: seconds to the target</text>')
    for name, seconds in rows(model):
        out.append(f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{name}</text>')
        if seconds == 'not reached':
            out.append(f'<text x="{LEFT + 4}" y="{y + 14}" fill="#888">not reached</text>')
        else:
            length = WIDTH * float(seconds) / LONGEST
            colour = '#d95f02' if name.startswith('DDP') else '#888' if name == 'dense' else '#1b75bb'
            out.append(f'<rect x="{LEFT}" y="{y + 3}" width="{length:.1f}" height="14" fill="{colour}"/>')
            out.append(f'<text x="{LEFT + length + 6:.1f}" y="{y + 14}">{seconds}</text>')
        y += ROW
    return y


def main():
    out, y = [], TOP
    for model in SHOWN:
        y = panel(model, y, out) + 40
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="700" height="{y - 30}" font-family="sans-serif" font-size="12">'
    paper = '<rect width="100%" height="100%" fill="white"/>'
    (HERE / 'time-to-accuracy.svg').write_text('\n'.join([head, paper, *out, '</svg>']) + '\n')


if __name__ == '__main__':
    main()
