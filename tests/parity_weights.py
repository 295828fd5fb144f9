#!/usr/bin/env python3
"""Do weights of ours open in other programs, and theirs here?

    parity_weights.py APPS

APPS is the folder of our programs (build/apps). A small GPT is trained on characters and on byte pairs, and transformers opens what
--export wrote: its loss is to be ours. MLX and tinygrad read the same numbers from it, and torchvision what --save wrote of a ResNet.
Files of PyTorch and NumPy become safetensors by the script of docs/models.md and by the lines that our errors give, and load to the loss
that PyTorch computes. Exit code 77 (skipped) if no Python with torch, transformers and safetensors is found (tests/parity.py).
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import parity  # noqa: F401  (starts this script again in a Python that has torch)

try:
    import numpy
    import torch
    from safetensors.torch import load_file
    from transformers import GPT2LMHeadModel, GPT2TokenizerFast
except ImportError as missing:
    print(f'skipped: {missing}')
    sys.exit(77)

DOCS = pathlib.Path(__file__).resolve().parent.parent / 'docs' / 'models.md'
BLOCK = 16
apps = pathlib.Path(sys.argv[1])


def run(program, *options, fails=False):
    done = subprocess.run([str(apps / program), *map(str, options), '--threads', '1', '--quiet'], capture_output=True, text=True)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout


def loss_here(text, weights, *options):
    out = run('gpt', '--data', text, '--init', weights, '--eval-only', '--json', *options)
    return json.loads(out.splitlines()[-1])['eval']['loss']


def loss_there(model, valid):
    """valid: numbers of tokens; read in blocks that lie one behind the other"""
    total = 0.0
    with torch.no_grad():
        for at in range(0, len(valid) - 1, BLOCK):
            x = torch.tensor(valid[at:at + BLOCK][:len(valid) - 1 - at])
            y = torch.tensor(valid[at + 1:at + 1 + BLOCK])
            total += torch.nn.functional.cross_entropy(model(x[None]).logits[0], y, reduction='sum').item()
    return total / (len(valid) - 1)


def expect_near(what, ours, theirs):
    print(f'{what:<40} {ours:.6f} {theirs:.6f}', flush=True)
    assert abs(ours - theirs) <= 1e-5 * theirs, what


def exported(folder, text, tokens):
    run('gpt', '--data', text, '--layers', 2, '--heads', 4, '--width', 32, '--block', BLOCK, '--steps', 60, '--tokens', tokens,
        '--export', folder)
    return folder / 'model.safetensors'


def opens_in_transformers(work, text):
    words = text.read_text()
    numbers = {c: i for i, c in enumerate(sorted(set(words)))}
    valid = words[len(words) * 9 // 10:]
    for tokens in ('chars', 'bpe:300'):
        folder = work / tokens.replace(':', '-')
        folder.mkdir()
        weights = exported(folder, text, tokens)
        model = GPT2LMHeadModel.from_pretrained(folder).eval()
        if tokens == 'chars':
            of_valid = [numbers[c] for c in valid]
        else:
            of_valid = GPT2TokenizerFast.from_pretrained(folder)(valid)['input_ids']
        expect_near(f'transformers, {tokens}', loss_here(text, folder, '--tokens', tokens), loss_there(model, of_valid))
    return weights


def numbers_are_the_same(weights):
    expected = load_file(weights)
    try:
        import mlx.core
        read = mlx.core.load(str(weights))
        assert read.keys() == expected.keys()
        assert all(numpy.array_equal(numpy.array(read[k]), v.numpy()) for k, v in expected.items())
        print('MLX reads the same')
    except ImportError as missing:
        print(f'not tried: {missing}')
    try:
        from tinygrad.nn.state import safe_load
        read = safe_load(str(weights))
        assert read.keys() == expected.keys()
        assert all(numpy.array_equal(read[k].to('CPU').numpy(), v.numpy()) for k, v in expected.items())
        print('tinygrad reads the same')
    except ImportError as missing:
        print(f'not tried: {missing}')


def opens_in_torchvision(work):
    try:
        import torchvision
    except ImportError as missing:
        return print(f'not tried: {missing}')
    run('imagenet', '--model', 'resnet18', '--image-size', 32, '--data', 'synthetic:40,10,10', '--batch', 4, '--steps', 1,
        '--save', work / 'resnet')
    torchvision.models.resnet18(num_classes=10).load_state_dict(load_file(work / 'resnet' / 'weights.safetensors'))
    print('torchvision takes a ResNet')


def conversions_work(work, text, weights):
    """weights: of byte pairs"""
    folder = weights.parent
    model = GPT2LMHeadModel.from_pretrained(folder).eval()
    script = DOCS.read_text()
    script = script[script.index('```python\n') + len('```python\n'):]
    script = script[:script.index('```')]
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        state = {k: v.to(dtype) for k, v in model.state_dict().items()}
        widened = GPT2LMHeadModel(model.config).eval()
        widened.load_state_dict({k: v.float() for k, v in state.items()})
        valid = GPT2TokenizerFast.from_pretrained(folder)(text.read_text()[len(text.read_text()) * 9 // 10:])['input_ids']
        expected = loss_there(widened, valid)
        name = str(dtype).removeprefix('torch.')
        torch.save({'model': state, 'step': 3}, folder / f'{name}.pth')
        torch.save(state, folder / f'{name}.pt', _use_new_zipfile_serialization=False)
        subprocess.run([sys.executable, '-c', script, folder / f'{name}.pth', folder / 'by-docs.safetensors'], check=True)
        expect_near(f'{name}, by the script of the docs', loss_here(text, folder / 'by-docs.safetensors'), expected)
        files = [f'{name}.pth', f'{name}.pt']
        if dtype != torch.bfloat16:  # numpy has no such type
            files.append(f'{name}.npz')
            numpy.savez(folder / files[-1], **{k: v.numpy() for k, v in state.items()})
        for file in files:
            said = run('gpt', '--data', text, '--init', folder / file, '--eval-only', fails=True)
            line = said[said.index('python3 '):].replace('python3', sys.executable, 1)
            subprocess.run(line, shell=True, check=True)
            expect_near(f'{file}, by the line of the error', loss_here(text, folder / f'{name}.safetensors'), expected)
            (folder / f'{name}.safetensors').unlink()


def main():
    draw = random.Random(1)
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        text = work / 'text.txt'
        words = ['some', 'words', 'that', 'come', 'again', 'and', 'other', 'ones.\n', 'It', 'is', 'so,']
        text.write_text(' '.join(draw.choice(words) for _ in range(3000)))
        weights = opens_in_transformers(work, text)
        numbers_are_the_same(weights)
        opens_in_torchvision(work)
        conversions_work(work, text, weights)


if __name__ == '__main__':
    main()
