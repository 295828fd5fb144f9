"""torch.topk of |x| beside our selectors: `laconic bench select --against torch` uses it.

    python3 torch_topk.py THREADS DEVICE     answers commands on stdin, one JSON object a line on stdout:
    load FILE                         float32 values to choose from            -> {"elements": n}
    run K                             indices of the K largest |x|, sorted     -> {"seconds": s}
"""
import json
import sys
import time

import torch


def main():
    if sys.argv[2] != 'cpu' and not torch.cuda.is_available():
        print(json.dumps({'error': f'the PyTorch of {sys.executable} finds no GPU (--against torch): install one that '
                                   'is built with CUDA, or leave it out'}), flush=True)
        sys.exit(1)
    torch.set_num_threads(int(sys.argv[1]))
    device = torch.device(sys.argv[2])
    wait = torch.cuda.synchronize if device.type == 'cuda' else lambda: None
    print(json.dumps({'ready': True, 'version': torch.__version__}), flush=True)
    for line in sys.stdin:
        command, argument = line.rstrip('\n').split(' ', 1)
        if command == 'load':
            x = torch.frombuffer(bytearray(open(argument, 'rb').read()), dtype=torch.float32).to(device)
            print(json.dumps({'elements': x.numel()}), flush=True)
        else:
            wait()
            start = time.perf_counter()
            indices = torch.topk(x.abs(), int(argument), sorted=False).indices.sort().values
            x[indices]
            wait()
            print(json.dumps({'seconds': time.perf_counter() - start}), flush=True)


if __name__ == '__main__':
    main()
