#!/usr/bin/env python3
"""Do our GPTs train as PyTorch's do? Initial weights from our app, the same steps in PyTorch, loss by loss.

    parity_gpt.py APPS [--model NAME]... [--data FILE] [--steps 20] [--batch B] [--lr 1e-3] [--preset] [--yardstick]

APPS is the folder of our programs (build/apps). AdamW with the gradient's norm clipped, as `gpt` has it, no dropout; a step reads the
next blocks of the text (--no-shuffle). Without --data a text is generated. The rate is constant; with --preset these are the first steps
of the model's preset: the rate rises for 100 steps, and then falls to a tenth by a cosine that ends with the preset. Exit code 0 if no
loss differs by 1e-4 of itself, 77
(skipped) if no Python with torch is found (tests/parity.py). With more than 20 steps both curves are printed too, as means over
tenths of them: rounding errors grow with every step, and single losses part.
"""
import argparse
import json
import math
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import parity
import torch
import torch_peer

LIMIT = 1e-4
MODELS = {'gpt-4x128': (4, 4, 128, 64), 'gpt-6x384': (6, 6, 384, 256)}
PRESET_STEPS = {'gpt-4x128': 2000, 'gpt-6x384': 5000}
WARM_UP = 100


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


def preset_factor(step, total):
    """What the rate is multiplied by in a step from 0: warmup:100it+cosine:0.1."""
    if step + 1 < WARM_UP:
        return (step + 1) / WARM_UP
    return 0.1 + 0.9 * (1 + math.cos(math.pi * max(step - WARM_UP, 0) / (total - WARM_UP))) / 2


def end_after(command, log, steps):
    """Ends a run that is longer once its log has so many steps."""
    run = subprocess.Popen(command)
    while len(losses_of(log)) < steps and run.poll() is None:
        time.sleep(0.1)
    run.send_signal(signal.SIGINT)
    run.wait()


def losses_of(log):
    lines = log.read_text().split('\n')[:-1] if log.exists() else []
    return [line['loss'] for line in map(json.loads, lines) if 'step' in line]


def theirs(model, train, steps, batch, block, rates):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{'params': matrices, 'weight_decay': 0.1}, {'params': others, 'weight_decay': 0}],
                                  betas=(0.9, 0.99))
    losses = []
    epoch = (len(train) - 1) // (batch * block)
    for step in range(steps):
        first = step % epoch * batch * block
        x = train[first:first + batch * block].view(batch, block).t()
        y = train[first + 1:first + 1 + batch * block].view(batch, block).t()
        for group in optimizer.param_groups:
            group['lr'] = rates[step]
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
    parser.add_argument('--preset', action='store_true', help="the rate of the preset's first steps")
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
                   str(options.lr), '--no-shuffle', '--threads', '1', '--eval-every', '0', '--quiet']
            subprocess.run([*app, '--steps', '0', '--save', str(folder / 'run')], check=True)
            weights = folder / 'run' / 'weights.safetensors'
            total = PRESET_STEPS[name] if options.preset else options.steps
            schedule = f'warmup:{WARM_UP}it+cosine:0.1' if options.preset else 'const'
            factors = [preset_factor(step, total) if options.preset else 1 for step in range(options.steps)]
            rates = [options.lr * factor for factor in factors]
            command = [*app, '--schedule', schedule, '--steps', str(total), '--init', str(weights), '--log', str(folder / 'log')]
            if total > options.steps:
                end_after(command, folder / 'log', options.steps)
            else:
                subprocess.run(command, check=True)
            mine = losses_of(folder / 'log')[:options.steps]
            state = parity.read_safetensors(weights)
            state['lm_head.weight'] = state['wte.weight']
            model = torch_peer.Gpt(layers, heads, width, block, 0, vocabulary)
            model.load_state_dict(state)
            peers = theirs(model, train, options.steps, options.batch, block, rates)
            assert len(mine) == len(peers) == options.steps, f'{name}: {len(mine)} and {len(peers)} losses'
            difference = parity.largest_difference(mine, peers)
            worst = max(worst, difference if difference == difference else 1e9)
            print(f'{name:<12} loss {peers[0]:.5f} … {peers[-1]:.5f}, the largest difference in {options.steps} steps {difference:.1e}', end='')
            if options.yardstick:
                double = torch_peer.Gpt(layers, heads, width, block, 0, vocabulary)
                double.load_state_dict(state)
                exact = theirs(double.double(), train, options.steps, options.batch, block, rates)
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
