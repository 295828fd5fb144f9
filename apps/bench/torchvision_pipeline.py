"""Photographs decoded and augmented by Pillow and torchvision: `laconic bench pipeline --against torchvision` uses it.

    python3 torchvision_pipeline.py SIZE train|eval PROCESSES    answers commands on stdin, one JSON object a line:
    load FILE      the images' paths, one a line              -> {"images": n}
    run            decodes and augments each of them once     -> {"seconds": s}
"""
import json
import multiprocessing
import sys
import time

import torch
from torchvision import transforms
from torchvision.datasets.folder import default_loader


def transform(size, training):
    end = [transforms.ToTensor(), transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
    if training:
        return transforms.Compose([transforms.RandomResizedCrop(size), transforms.RandomHorizontalFlip()] + end)
    return transforms.Compose([transforms.Resize(round(size * 8 / 7)), transforms.CenterCrop(size)] + end)


def work(arguments):
    size, training, paths = arguments
    torch.set_num_threads(1)
    see = transform(size, training)
    for path in paths:
        see(default_loader(path))
    return len(paths)


def main():
    size, training, processes = int(sys.argv[1]), sys.argv[2] == 'train', int(sys.argv[3])
    pool = multiprocessing.Pool(processes) if processes > 1 else None
    print(json.dumps({'ready': True, 'version': torch.__version__}), flush=True)
    for line in sys.stdin:
        command, _, argument = line.rstrip('\n').partition(' ')
        if command == 'load':
            paths = open(argument, encoding='utf-8').read().splitlines()
            print(json.dumps({'images': len(paths)}), flush=True)
        else:
            start = time.perf_counter()
            parts = [(size, training, paths[i::processes]) for i in range(processes)]
            pool.map(work, parts) if pool else work(parts[0])
            print(json.dumps({'seconds': time.perf_counter() - start}), flush=True)


if __name__ == '__main__':
    main()
