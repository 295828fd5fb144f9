#!/usr/bin/env python3
"""Do our models train as PyTorch's do? For each: initial weights from our app, 20 steps there, the same 20 steps in PyTorch.

    parity.py APPS [--model NAME]... [--mnist DIR] [--cifar DIR] [--steps 20] [--batch 32] [--lr X]

APPS is the folder of our programs (build/apps). --mnist: four idx files, gzipped or not; --cifar: data_batch_1.bin and so on.
Without them the script writes generated files in the same formats (Fashion-MNIST is taken where Debian's package put it).
Prints a table of the largest relative difference of a step's loss. Exit code 0 if all are below 1e-3, 77 (skipped) if no
Python with torch is found: of LACONIC_PYTHON, else python3, else /usr/bin/python3.
"""
import argparse
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
FASHION = '/usr/share/datasets/fashion-mnist'
LIMIT = 1e-3


def find_torch():
    """Starts this script again in a Python that has torch, with one thread and OpenBLAS as it is by default."""
    if os.environ.get('LACONIC_PARITY') == '1':
        return
    own = os.environ.get('LACONIC_PYTHON')
    for python in [own] if own else ['python3', '/usr/bin/python3']:
        try:
            found = subprocess.run([python, '-c', 'import torch, numpy'], stderr=subprocess.DEVNULL).returncode == 0
        except OSError:
            found = False
        if found:
            environment = {k: v for k, v in os.environ.items() if not k.startswith(('OPENBLAS_', 'OMP_'))}
            environment.update(LACONIC_PARITY='1', OMP_NUM_THREADS='1')
            os.execvpe(python, [python, *sys.argv], environment)
    print('skipped: no Python that can import torch and numpy was found (install torch, or name a Python in LACONIC_PYTHON)')
    sys.exit(77)


find_torch()
import numpy  # noqa: E402
import torch  # noqa: E402

sys.path.insert(0, str(HERE.parent / 'apps' / 'bench'))
import torch_peer  # noqa: E402

# Batch norm over small batches makes a rounding error grow tenfold every few steps, the faster the larger the steps: with
# lr 0.01 PyTorch's ResNet-44 differs from itself in another memory layout, or in double, by 2e-2 after 20 steps, as much
# as from ours. --yardstick shows it. These rates keep PyTorch's own difference well below the limit.
LR = {'resnet20': 1e-3, 'resnet32': 3e-4, 'resnet44': 1e-4, 'resnet56': 1e-4, 'vgg16-32': 1e-4}


def write_idx(path, array):
    header = bytes([0, 0, 8, array.ndim]) + b''.join(n.to_bytes(4, 'big') for n in array.shape)
    path.write_bytes(header + array.astype(numpy.uint8).tobytes())


def images_of_classes(count, shape, seed):
    """Each class is a pattern of its own; an image is its pattern and noise."""
    random = numpy.random.RandomState(seed)
    patterns = random.rand(10, *shape[:1], *[(n + 3) // 4 for n in shape[1:]])
    patterns = patterns.repeat(4, axis=2).repeat(4, axis=3)[:, :, :shape[1], :shape[2]]
    labels = random.randint(0, 10, count)
    images = 60 + 120 * patterns[labels] + 40 * random.rand(count, *shape)
    return images.astype(numpy.uint8), labels.astype(numpy.uint8)


def generated(folder, kind, count):
    folder.mkdir(exist_ok=True)
    if kind == 'mnist':
        for name, n, seed in [('train', count, 1), ('t10k', 10, 2)]:
            images, labels = images_of_classes(n, (1, 28, 28), seed)
            write_idx(folder / f'{name}-images-idx3-ubyte', images[:, 0])
            write_idx(folder / f'{name}-labels-idx1-ubyte', labels)
    else:
        for name, n, seed in [('data_batch_1', count, 1), ('test_batch', 10, 2)]:
            images, labels = images_of_classes(n, (3, 32, 32), seed)
            (folder / f'{name}.bin').write_bytes(numpy.concatenate([labels[:, None], images.reshape(n, -1)], axis=1).tobytes())
    return folder


def read_file(path):
    packed = path.with_name(path.name + '.gz')
    return gzip.decompress(packed.read_bytes()) if not path.exists() else path.read_bytes()


def read_samples(folder, kind, count):
    """(float images, normalised; labels): the first `count` of the training set, in file order."""
    if kind == 'mnist':
        raw = numpy.frombuffer(read_file(folder / 'train-images-idx3-ubyte'), numpy.uint8, count * 784, 16)
        labels = numpy.frombuffer(read_file(folder / 'train-labels-idx1-ubyte'), numpy.uint8, count, 8)
        images = raw.reshape(count, 1, 28, 28)
        mean, std = ([0.2860], [0.3530]) if 'fashion' in str(folder).lower() else ([0.1307], [0.3081])
    else:
        records = b''
        for i in range(1, 6):
            if len(records) < count * 3073 and (folder / f'data_batch_{i}.bin').exists():
                records += (folder / f'data_batch_{i}.bin').read_bytes()
        records = numpy.frombuffer(records, numpy.uint8, count * 3073).reshape(count, 3073)
        labels, images = records[:, 0], records[:, 1:].reshape(count, 3, 32, 32)
        mean, std = [0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]
    shaped = [numpy.array(v, numpy.float32).reshape(1, -1, 1, 1) for v in (mean, std)]
    images = (images.astype(numpy.float32) / numpy.float32(255) - shaped[0]) / shaped[1]
    return torch.from_numpy(images), torch.from_numpy(labels.astype(numpy.int64))


def read_safetensors(path):
    data = path.read_bytes()
    n = int.from_bytes(data[:8], 'little')
    tensors = {}
    for name, entry in json.loads(data[8:8 + n]).items():
        if name == '__metadata__':
            continue
        dtype = {'F32': numpy.float32, 'I64': numpy.int64}[entry['dtype']]
        begin, end = entry['data_offsets']
        array = numpy.frombuffer(data[8 + n + begin:8 + n + end], dtype).reshape(entry['shape'])
        tensors[name] = torch.from_numpy(array.copy())
    return tensors


def ours(apps, model, kind, data, options, lr, folder):
    """The losses of our app's steps; leaves the initial weights in folder/weights.safetensors."""
    app = [str(apps / ('mnist' if kind == 'mnist' else 'cifar10')), '--model', model, '--data', str(data), '--batch', str(options.batch),
           '--threads', '1', '--quiet']
    subprocess.run([*app, '--steps', '0', '--save', str(folder)], check=True)
    log = folder / 'log.jsonl'
    subprocess.run([*app, '--steps', str(options.steps), '--init', str(folder / 'weights.safetensors'), '--log', str(log), '--no-shuffle',
                    '--no-augment', '--no-dropout', '--schedule', 'const', '--optimizer', 'sgd', '--momentum', '0.9', '--weight-decay',
                    '5e-4', '--lr', str(lr)], check=True)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [line['loss'] for line in lines if 'step' in line]


def theirs(model, weights, images, labels, options, lr, double=False):
    network = torch_peer.MODELS[model][0]()
    network.load_state_dict(weights)
    if double:
        network, images = network.double(), images.double()
    for module in network.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0
    optimizer = torch.optim.SGD(network.parameters(), lr=lr, momentum=0.9, weight_decay=5e-4)
    losses = []
    for i in range(options.steps):
        batch = slice(i * options.batch, (i + 1) * options.batch)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(network(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def largest_difference(losses, others):
    """Of any step, relative. Not with max(), which would lose a NaN."""
    return float(numpy.max(numpy.abs(numpy.array(losses) - others) / numpy.abs(others)))


def main():
    models = ['lenet', 'hdc', 'hdc-2.5mb', 'alexnet-32', 'vgg16-32', 'resnet20', 'resnet32', 'resnet44', 'resnet56']
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('apps', type=pathlib.Path)
    parser.add_argument('--model', action='append', choices=list(torch_peer.MODELS))
    parser.add_argument('--mnist', type=pathlib.Path, default=FASHION if os.path.isdir(FASHION) else None)
    parser.add_argument('--cifar', type=pathlib.Path)
    parser.add_argument('--steps', type=int, default=20)
    parser.add_argument('--batch', type=int, default=32)
    parser.add_argument('--lr', type=float)
    parser.add_argument('--yardstick', action='store_true', help="also PyTorch's difference from itself in double")
    options = parser.parse_args()
    torch.set_num_threads(1)
    count, worst = options.steps * options.batch, 0.0
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        print(f'{options.steps} steps, batch {options.batch}, SGD with momentum 0.9 and weight decay 5e-4; PyTorch {torch.__version__}')
        print(f'{"model":<12} {"data":<44} {"lr":>6} {"first loss":>11} {"last loss":>10} {"largest difference":>19} {"s":>5}')
        for model in options.model or models:
            start = time.time()
            kind = 'mnist' if torch_peer.MODELS[model][1] == (1, 28, 28) else 'cifar'
            given = options.mnist if kind == 'mnist' else options.cifar
            data = pathlib.Path(given) if given else generated(scratch / kind, kind, count)
            lr = options.lr or LR.get(model, 0.01)
            folder = scratch / model
            folder.mkdir()
            mine = ours(options.apps, model, kind, data, options, lr, folder)
            images, labels = read_samples(data, kind, count)
            weights = read_safetensors(folder / 'weights.safetensors')
            peers = theirs(model, weights, images, labels, options, lr)
            assert len(mine) == len(peers) == options.steps, f'{model}: {len(mine)} and {len(peers)} losses'
            difference = largest_difference(mine, peers)
            worst = max(worst, difference if difference == difference else 1e9)
            print(f'{model:<12} {str(given or "generated"):<44} {lr:>6g} {peers[0]:>11.5f} {peers[-1]:>10.5f} {difference:>19.1e} '
                  f'{time.time() - start:>5.1f}', end='', flush=True)
            if options.yardstick:
                exact = theirs(model, weights, images, labels, options, lr, double=True)
                print(f'   PyTorch from double {largest_difference(peers, exact):.1e}, ours {largest_difference(mine, exact):.1e}', end='')
            print(flush=True)
    if worst >= LIMIT:
        sys.exit(f'parity: a loss differs by {worst:.1e} of itself, {LIMIT:g} is allowed.')


if __name__ == '__main__':
    main()
