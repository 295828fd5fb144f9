#!/usr/bin/env python3
"""Do our GPTs train as PyTorch's do? Initial weights from our app, the same steps in PyTorch, loss by loss.

    parity_gpt.py APPS [--model NAME]... [--data FILE] [--steps 20] [--batch B] [--lr 1e-3] [--yardstick]

APPS is the folder of our programs (build/apps). AdamW with the gradient's norm clipped, as `gpt` has it, no dropout; a step reads the
next blocks of the text (--no-shuffle). Without --data a text is generated. Exit code 0 if no loss differs by 1e-4 of itself, 77
(skipped) if no Python with torch is found (tests/parity.py). With more than 20 steps both curves are printed too, as means over
tenths of them: rounding errors grow with every step, and single losses part.
"""
import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

import parity
import torch
import torch_peer

LIMIT = 1e-4
MODELS = {'gpt-4x128': (4, 4, 128, 64), 'gpt-6x384': (6, 6, 384, 256)}


def generated(path, characters):
    """A text in which few characters follow each one."""
    draw = random.Random(1)
    alphabet = '\n !,.abcdefghijklmnopqrstuvwxyz'
    follow = [[draw.randrange(len(alphabet)) for _ in range(4)] for _ in alphabet]
    at, text = 0, [*alphabet]
    while len(text) < characters:
        at = follow[at][min(draw.randrange(6), 3)]
        text.append(alphabet[at])
    path.write_text(''.join(text))
    return path


def numbers_of(path):
    text = path.read_text()
    numbers = {c: i for i, c in enumerate(sorted(set(text)))}
    return torch.tensor([numbers[c] for c in text[:len(text) * 9 // 10]]), len(numbers)


def theirs(model, train, steps, batch, block, lr):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{'params': matrices, 'weight_decay': 0.1}, {'params': others, 'weight_decay': 0}], lr=lr,
                                  betas=(0.9, 0.99))
    losses = []
    epoch = (len(train) - 1) // (batch * block)
    for step in range(steps):
        first = step % epoch * batch * block
        x = train[first:first + batch * block].view(batch, block).t()
        y = train[first + 1:first + 1 + batch * block].view(batch, block).t()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('apps', type=pathlib.Path)
    parser.add_argument('--model', action='append', choices=list(MODELS))
    parser.add_argument('--data', type=pathlib.Path)
    parser.add_argument('--steps', type=int, default=20)
    parser.add_argument('--batch', type=int, default=4)
    parser.add_argument('--lr', type=float, default=1e-3)
    parser.add_argument('--yardstick', action='store_true', help="also PyTorch's difference from itself in double")
    options = parser.parse_args()
    torch.set_num_threads(1)
    worst = 0.0
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.model or ['gpt-4x128']:
            layers, heads, width, block = MODELS[name]
            folder = pathlib.Path(scratch) / name
            folder.mkdir()
            data = options.data or generated(folder / 'text.txt', 2 * (options.steps + 1) * options.batch * block)
            train, vocabulary = numbers_of(data)
            app = [str(options.apps / 'gpt'), '--model', name, '--data', str(data), '--batch', str(options.batch), '--dropout', '0', '--lr',
                   str(options.lr), '--schedule', 'const', '--no-shuffle', '--threads', '1', '--eval-every', '0', '--quiet']
            subprocess.run([*app, '--steps', '0', '--save', str(folder / 'run')], check=True)
            weights = folder / 'run' / 'weights.safetensors'
            subprocess.run([*app, '--steps', str(options.steps), '--init', str(weights), '--log', str(folder / 'log')], check=True)
            mine = [line['loss'] for line in map(json.loads, (folder / 'log').read_text().splitlines()) if 'step' in line]
            state = parity.read_safetensors(weights)
            state['lm_head.weight'] = state['wte.weight']
            model = torch_peer.Gpt(layers, heads, width, block, 0, vocabulary)
            model.load_state_dict(state)
            peers = theirs(model, train, options.steps, options.batch, block, options.lr)
            assert len(mine) == len(peers) == options.steps, f'{name}: {len(mine)} and {len(peers)} losses'
            difference = parity.largest_difference(mine, peers)
            worst = max(worst, difference if difference == difference else 1e9)
            print(f'{name:<12} loss {peers[0]:.5f} … {peers[-1]:.5f}, the largest difference in {options.steps} steps {difference:.1e}', end='')
            if options.yardstick:
                double = torch_peer.Gpt(layers, heads, width, block, 0, vocabulary)
                double.load_state_dict(state)
                exact = theirs(double.double(), train, options.steps, options.batch, block, options.lr)
                print(f'; PyTorch from double {parity.largest_difference(peers, exact):.1e}, ours '
                      f'{parity.largest_difference(mine, exact):.1e}', end='')
            print(flush=True)
            if options.steps > 20:
                print('steps        ours     PyTorch  difference')
                tenth = -(-options.steps // 10)
                for first in range(0, options.steps, tenth):
                    a, b = (statistics.fmean(losses[first:first + tenth]) for losses in (mine, peers))
                    print(f'{first + 1:>5} … {min(first + tenth, options.steps):<5}{a:8.4f}{b:12.4f}{a / b - 1:+11.2%}', flush=True)
    if worst >= LIMIT:
        sys.exit(f'parity: a loss differs by {worst:.1e} of itself, {LIMIT:g} is allowed.')


if __name__ == '__main__':
    main()
