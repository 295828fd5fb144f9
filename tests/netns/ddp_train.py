#!/usr/bin/env python3
"""A training program in PyTorch (DistributedDataParallel over gloo) with the option names and the log of ours, for
`laconic compare --peer`:

    ddp_train.py --model alexnet-32 --data DIR --workers 4 --batch 32 --epochs 5 --lr 0.04 [--hook none|fp16|bf16|powersgd]

As ours it takes --momentum, --nesterov, --weight-decay, --schedule [warmup:W+]const|cosine, --steps, --epoch-steps,
--eval-every, --seed, --threads, --no-augment, --log FILE, --quiet and --json. It trains the models of images on the binary
files of CIFAR-10, on files in the form of MNIST's, or on `synthetic`. Data, order of samples within a batch of all workers,
crops, flips and the schedule follow ours; random numbers are PyTorch's own. The log's loss is that of rank 0's samples.

Under mpirun (netns.sh run) and torchrun a process is a rank. Alone it starts --workers processes. PyTorch at its best:
large blocks of memory are kept, SGD in one pass, gradients live in DDP's buckets, no broadcast of running statistics, and the faster of plain and channels-last layout, by a
trial before (--layout auto); --compile trains the compiled model.
"""
import argparse
import ctypes
import gzip
import json
import math
import os
import pathlib
import random
import shlex
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'apps' / 'bench'))
from torch_peer import MODELS, sgd  # noqa: E402


def read(path):
    """All bytes of a file, gzipped or not."""
    for candidate, opener in ((path, open), (path.with_name(path.name + '.gz'), gzip.open)):
        if candidate.exists():
            with opener(candidate, 'rb') as file:
                return file.read()
    sys.exit(f'ddp_train: there is no {path} (--data)')


def cifar10(folder):
    def part(names):
        records = torch.frombuffer(bytearray(b''.join(read(folder / name) for name in names)), dtype=torch.uint8).view(-1, 3073)
        return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].long()

    train = [f'data_batch_{i}.bin' for i in range(1, 6)]
    train = [name for name in train if any((folder / (name + end)).exists() for end in ('', '.gz'))]
    return part(train), part(['test_batch.bin']), (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def mnist(folder):
    def part(prefix):
        images = torch.frombuffer(bytearray(read(folder / f'{prefix}-images-idx3-ubyte')), dtype=torch.uint8)[16:]
        labels = torch.frombuffer(bytearray(read(folder / f'{prefix}-labels-idx1-ubyte')), dtype=torch.uint8)[8:]
        return images.view(-1, 1, 28, 28), labels.long()

    fashion = 'fashion' in str(folder).lower()
    return part('train'), part('t10k'), (0.2860 if fashion else 0.1307,), (0.3530 if fashion else 0.3081,)


def synthetic(shape):
    draw = torch.Generator().manual_seed(0)
    part = lambda n: (torch.randint(0, 256, (n, *shape), dtype=torch.uint8, generator=draw), torch.randint(0, 10, (n,), generator=draw))
    return part(4000), part(1000), [0.5] * shape[0], [0.25] * shape[0]


class Images:
    def __init__(self, options, shape):
        where = options.data
        data = synthetic(shape) if where.startswith('synthetic') else (mnist if shape[0] == 1 else cifar10)(pathlib.Path(where))
        self.train, self.test, mean, std = data
        self.mean, self.std = (torch.tensor(v).view(1, -1, 1, 1) for v in (mean, std))
        self.augments = shape[0] == 3 and not options.no_augment

    def ready(self, images, augment=False):
        x = (images.float() / 255 - self.mean) / self.std
        if not augment or not self.augments:
            return x
        n, _, height, width = x.shape
        black = -self.mean / self.std
        padded = F.pad(x - black, (4, 4, 4, 4)) + black
        top, left, flip = torch.randint(0, 9, (n,)), torch.randint(0, 9, (n,)), torch.rand(n) < 0.5
        for i in range(n):
            crop = padded[i, :, top[i]:top[i] + height, left[i]:left[i] + width]
            x[i] = crop.flip(2) if flip[i] else crop
        return x


def factor_of(schedule, step, steps_per_epoch, total):
    """As optim/schedule.h has it."""
    rule, warmup = schedule, 0
    if schedule.startswith('warmup:'):
        count, rule = schedule[len('warmup:'):].split('+', 1)
        warmup = float(count[:-2]) if count.endswith('it') else float(count) * steps_per_epoch
    if rule == 'const':
        factor = 1
    elif rule == 'cosine':
        factor = (1 + math.cos(math.pi * max(0, step - warmup) / max(1, total - warmup))) / 2
    else:
        sys.exit(f'ddp_train: {schedule} is not written here (--schedule): const or cosine, with warmup:W+ in front')
    return factor * min(1, (step + 1) / warmup) if warmup else factor


def wrapped(options, network, per_epoch):
    buckets = {}
    if options.hook == 'powersgd':  # one bucket: with several, gloo's threads start its allreduces in different orders on the ranks
        dist._DEFAULT_FIRST_BUCKET_BYTES = 1 << 40
        buckets['bucket_cap_mb'] = 1 << 20
    model = torch.nn.parallel.DistributedDataParallel(network, broadcast_buffers=False, gradient_as_bucket_view=True, **buckets)
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
    if options.hook in ('fp16', 'bf16'):
        model.register_comm_hook(None, getattr(default_hooks, f'{options.hook}_compress_hook'))
    elif options.hook == 'powersgd':
        model.register_comm_hook(powerSGD_hook.PowerSGDState(process_group=None, matrix_approximation_rank=options.rank,
                                                             start_powerSGD_iter=max(2, int(options.dense_epochs * per_epoch))), powerSGD_hook.powerSGD_hook)
    return model


def faster_layout(options, images):
    """By forward and backward of one batch, in turns."""
    x, y = images.ready(images.train[0][:options.batch]), images.train[1][:options.batch]
    seconds = {}
    for layout in ('contiguous', 'channels_last') * 2:
        form = getattr(torch, layout + '_format' if layout == 'contiguous' else layout)
        network, batch = MODELS[options.model][0]().to(memory_format=form), x.to(memory_format=form)
        for i in range(5):
            start = time.perf_counter()
            F.cross_entropy(network(batch), y).backward()
            if i > 1:
                seconds[layout] = min(seconds.get(layout, math.inf), time.perf_counter() - start)
    choice = torch.tensor([seconds['channels_last'] < seconds['contiguous']], dtype=torch.int64)
    dist.broadcast(choice, 0)
    return 'channels_last' if choice.item() else 'contiguous'


def evaluate(network, images, form, rank, size):
    """Top-1 error in per cent and mean loss, each rank its share."""
    x, y = images.test
    sums = torch.zeros(3, dtype=torch.float64)
    network.eval()
    with torch.no_grad():
        for begin in range(rank * 250, len(y), size * 250):
            part, labels = images.ready(x[begin:begin + 250]).to(memory_format=form), y[begin:begin + 250]
            logits = network(part)
            sums += torch.tensor([len(labels), F.cross_entropy(logits, labels, reduction='sum').item(), (logits.argmax(1) != labels).sum().item()],
                                 dtype=torch.float64)
    network.train()
    dist.all_reduce(sums)
    return 100 * (sums[2] / sums[0]).item(), (sums[1] / sums[0]).item(), int(sums[0])


def keep_large_blocks():
    """As MALLOC_MMAP_THRESHOLD_ and MALLOC_TRIM_THRESHOLD_ would, which mpirun does not pass on to other hosts."""
    mallopt = getattr(ctypes.CDLL(None), 'mallopt', None)
    if mallopt:  # glibc's numbers of M_MMAP_THRESHOLD and M_TRIM_THRESHOLD
        mallopt(-3, 1 << 30)
        mallopt(-1, 2**31 - 1)


def train(rank, options, port=None):
    if port is not None:
        os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(options.workers))
    torch.set_num_threads(options.threads)
    keep_large_blocks()
    dist.init_process_group('gloo')
    rank, size = dist.get_rank(), dist.get_world_size()
    make, shape = MODELS[options.model]
    images = Images(options, shape)
    torch.manual_seed(options.seed)
    layout = faster_layout(options, images) if options.layout == 'auto' else options.layout
    form = torch.channels_last if layout == 'channels_last' else torch.contiguous_format
    torch.manual_seed(options.seed)  # the same weights on all ranks
    network = make().to(memory_format=form)
    samples, together = len(images.train[1]), options.batch * size
    per_epoch = min(-(-samples // together), options.epoch_steps or samples)
    total = options.steps or options.epochs * per_epoch
    model = wrapped(options, network, per_epoch)
    if options.compile:
        model = torch.compile(model)
    optimizer = sgd(model, lr=options.lr, momentum=options.momentum, nesterov=options.nesterov, weight_decay=options.weight_decay)
    torch.manual_seed(1000 * (options.seed + 1) + rank)  # of crops and dropout

    log = open(options.log, 'w') if options.log and rank == 0 else None
    if log:
        run = {'model': options.model, 'seed': options.seed, 'command': shlex.join(sys.argv), 'version': 'PyTorch ' + torch.__version__}
        log.write(json.dumps({'run': run}) + '\n')

    def write(line):
        if log:
            log.write(json.dumps(line) + '\n')
            log.flush()

    begun, last = time.perf_counter(), None
    for step in range(total):
        epoch, batch = divmod(step, per_epoch)
        if batch == 0:
            order = torch.randperm(samples, generator=torch.Generator().manual_seed(options.seed * 1000003 + epoch))
        start = time.perf_counter()
        mine = order[batch * together + rank * options.batch:][:options.batch] if batch * together + rank * options.batch < samples else order[:0]
        mine = mine[:max(0, min(samples, (batch + 1) * together) - batch * together - rank * options.batch)]
        # A short batch: the mean over all samples, as ours (n_k N / n).
        weight = len(mine) * size / min(together, samples - batch * together)
        x, y = images.ready(images.train[0][mine], augment=True).to(memory_format=form), images.train[1][mine]
        lr = options.lr * factor_of(options.schedule, step, per_epoch, total)
        for group in optimizer.param_groups:
            group['lr'] = lr
        optimizer.zero_grad(set_to_none=False)
        if len(mine):
            loss = F.cross_entropy(model(x), y)
        else:  # a rank without samples takes part in every exchange
            loss = 0 * model(images.ready(images.train[0][:2]).to(memory_format=form)).sum()
        (weight * loss if weight not in (0, 1) else loss).backward()
        optimizer.step()
        value = loss.item()
        if not math.isfinite(value):
            sys.exit(f'ddp_train: the loss is {value} in step {step + 1}')
        write({'step': step + 1, 'epoch': epoch + 1, 'loss': value, 'lr': lr, 'step_ms': 1e3 * (time.perf_counter() - start),
               'bytes_sent': None, 'bytes_dense': 4 * sum(p.numel() for p in network.parameters()) * 2 * (size - 1) // size})
        ends = batch + 1 == per_epoch
        if options.eval_every and (step + 1 == total or ends and (epoch + 1) % options.eval_every == 0):
            error, loss, count = evaluate(network, images, form, rank, size)
            last = {'epoch': epoch + 1, 'samples': count, 'loss': loss, 'top1_error': error, 'seconds': time.perf_counter() - begun}
            write({'eval': last})
            if rank == 0 and not options.quiet:
                print(f'epoch {epoch + 1}  test accuracy {100 - error:.2f} %, loss {loss:.4f}', flush=True)
    if rank == 0 and options.json:
        print(json.dumps({'model': options.model, 'workers': size, 'threads': options.threads, 'batch': options.batch, 'steps': total,
                          'torch': torch.__version__, 'layout': layout, 'hook': options.hook, 'compiled': options.compile,
                          **({'eval': last} if last else {})}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--model', choices=MODELS, default='alexnet-32')
    parser.add_argument('--data', default='synthetic')
    for name, default in {'workers': 1, 'batch': 32, 'epochs': 1, 'steps': 0, 'epoch-steps': 0, 'eval-every': 1, 'seed': 0, 'threads': 1}.items():
        parser.add_argument(f'--{name}', type=int, default=default)
    for name, default in {'lr': 0.1, 'momentum': 0, 'weight-decay': 0}.items():
        parser.add_argument(f'--{name}', type=float, default=default)
    for name in ('nesterov', 'no-augment', 'quiet', 'json', 'compile'):
        parser.add_argument(f'--{name}', action='store_true')
    parser.add_argument('--schedule', default='const')
    parser.add_argument('--log')
    parser.add_argument('--layout', choices=['auto', 'contiguous', 'channels_last'], default='auto')
    parser.add_argument('--hook', choices=['none', 'fp16', 'bf16', 'powersgd'], default='none')
    parser.add_argument('--rank', type=int, default=1, help="of PowerSGD's matrices")
    parser.add_argument('--dense-epochs', type=float, default=0, help='epochs before PowerSGD begins; it needs two steps at least')
    options = parser.parse_args()
    ours = 'OMPI_COMM_WORLD_RANK'
    if ours in os.environ:
        os.environ.update(RANK=os.environ[ours], WORLD_SIZE=os.environ['OMPI_COMM_WORLD_SIZE'])
        os.environ.setdefault('MASTER_ADDR', '10.41.0.1')  # netns.sh: the first host
        os.environ.setdefault('MASTER_PORT', '29400')
        if os.path.exists('/sys/class/net/eth0'):
            os.environ.setdefault('GLOO_SOCKET_IFNAME', 'eth0')
    if 'RANK' in os.environ:
        train(int(os.environ['RANK']), options)
    else:
        multiprocessing.spawn(train, (options, random.SystemRandom().randint(20000, 40000)), options.workers)


if __name__ == '__main__':
    main()
