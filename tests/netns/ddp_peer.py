#!/usr/bin/env python3
"""Data-parallel training in PyTorch (DistributedDataParallel over gloo), to compare ours with: one process per host,

    netns.sh all python3 ddp_peer.py --model alexnet-32 --batch 32 --steps 20 --threads 1 [--hook none|fp16|powersgd]

A step is what a step of ours is: forward, backward, exchange, SGD with momentum 0.9 and weight decay 5e-4, on a batch of
random images (of language models: SGD that clips the gradient's norm, on random words), and the loss read at the end. Turns
of computing alone (no_sync) and of training alternate, so that both see the same machine. Rank 0 prints one JSON object:
seconds per step of each turn, "alone" and "ddp".

PyTorch at its best: SGD in one pass, gradients live in DDP's buckets, no broadcast of running statistics; the faster of plain
and channels-last layout, with --compile also of the compiled model, by a trial before (--layout auto). The environment (malloc, OpenBLAS) is the caller's: compare_ddp.py
sets it.
"""
import argparse
import contextlib
import json
import pathlib
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'apps' / 'bench'))
from torch_peer import LANGUAGE_MODELS, MODELS, sgd  # noqa: E402


LAYOUTS = ['contiguous', 'channels_last']
COMPILED = ['compiled', 'compiled channels_last']


def seconds_per_step(model, optimizer, x, y, clip_norm, steps, exchange):
    dist.barrier()
    with contextlib.nullcontext() if exchange else model.no_sync():
        start = time.perf_counter()
        for _ in range(steps):
            optimizer.zero_grad(set_to_none=not exchange)
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            if clip_norm:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
            optimizer.step()
            loss.item()
        return (time.perf_counter() - start) / steps


def build(options, layout):
    torch.manual_seed(0)
    language = options.model in LANGUAGE_MODELS
    make, shape, *clip = (LANGUAGE_MODELS if language else MODELS)[options.model]  # shape: words a step, or of an image
    network = make()
    torch.manual_seed(1 + dist.get_rank())
    if language:
        x, y = torch.randint(0, 10000, (shape, options.batch)), torch.randint(0, 10000, (shape * options.batch,))
    else:
        x, y = torch.randn(options.batch, *shape), torch.randint(0, 10, (options.batch,))
    if 'channels_last' in layout:
        network, x = network.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    if 'compiled' in layout:
        network = torch.compile(network)
    buckets = {}
    if options.hook == 'powersgd':  # one bucket: with several, gloo's threads start its allreduces in different orders on the ranks
        dist._DEFAULT_FIRST_BUCKET_BYTES = 1 << 40
        buckets['bucket_cap_mb'] = 1 << 20
    model = torch.nn.parallel.DistributedDataParallel(network, broadcast_buffers=False, gradient_as_bucket_view=True, **buckets)
    if options.hook == 'fp16':
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
        model.register_comm_hook(None, fp16_compress_hook)
    elif options.hook == 'powersgd':
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
        state = powerSGD_hook.PowerSGDState(process_group=None, matrix_approximation_rank=options.rank, start_powerSGD_iter=2)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    rule = {} if language else {'momentum': 0.9, 'weight_decay': 5e-4}
    return model, sgd(model, lr=1e-3, **rule), x, y, clip[0] if clip else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--model', choices=[*MODELS, *LANGUAGE_MODELS], default='alexnet-32')
    parser.add_argument('--batch', type=int, default=32, help='of each rank')
    parser.add_argument('--steps', type=int, default=10, help='of each turn')
    parser.add_argument('--turns', type=int, default=1)
    parser.add_argument('--warmup', type=int, default=3, help='steps before the first turn; DDP arranges its buckets in them')
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--layout', choices=['auto', *LAYOUTS, *COMPILED], default='auto')
    parser.add_argument('--compile', action='store_true', help='--layout auto tries torch.compile too, which takes minutes')
    parser.add_argument('--hook', choices=['none', 'fp16', 'powersgd'], default='none')
    parser.add_argument('--rank', type=int, default=1, help="of PowerSGD's matrices")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    dist.init_process_group('gloo')

    layout, trial = options.layout, {}
    if options.model in LANGUAGE_MODELS:
        layout = 'contiguous'  # no images
    if layout == 'auto':
        candidates = LAYOUTS + (COMPILED if options.compile else [])
        for candidate in candidates:
            network = build(options, candidate)
            seconds_per_step(*network, 2, False)
            trial[candidate] = seconds_per_step(*network, 5, False)
        choice = torch.tensor([min(range(len(candidates)), key=lambda i: trial[candidates[i]])], dtype=torch.int64)
        dist.broadcast(choice, 0)
        layout = candidates[choice.item()]
        del network
    network = build(options, layout)
    seconds_per_step(*network, options.warmup, True)
    alone, ddp = [], []
    for _ in range(options.turns):
        alone.append(seconds_per_step(*network, options.steps, False))
        ddp.append(seconds_per_step(*network, options.steps, True))
    dist.barrier()
    if dist.get_rank() == 0:
        print(json.dumps({'model': options.model, 'batch': options.batch, 'ranks': dist.get_world_size(), 'threads': options.threads,
                          'version': torch.__version__, 'layout': layout, 'hook': options.hook, 'alone': alone, 'ddp': ddp}), flush=True)


if __name__ == '__main__':
    main()
