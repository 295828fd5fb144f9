"""Calls of PyTorch: `laconic bench ops` and `laconic bench select` with --against torch use it.

    python3 torch_calls.py THREADS DEVICE    answers commands on stdin, one JSON object a line on stdout:
    set TAPE X Y EXPRESSION    an operation on tensors of the shapes X and Y, as 4,4; TAPE is the number of times that it
                               is applied to its own result before the sum of that goes backward, or 0: once, and
                               nothing is recorded                                            -> {"ok": true}
    load K FILE                the K largest |x| of a file's float32 values, by their sorted indices   -> {"ok": true}
    run N                      N times what was set or loaded                                 -> {"seconds": of one}
It begins with {"ready": true, ...}, or ends with {"error": "why"}.
"""
import json
import sys
import time

import torch
import torch.nn.functional as F


def operation(tape, x_shape, y_shape, expression):
    x, y = (torch.rand([int(d) for d in s.split(',')]) + 0.5 for s in (x_shape, y_shape))
    f = eval('lambda x, y: ' + expression, {'torch': torch, 'F': F})
    x.requires_grad_(tape > 0)

    def once():
        if tape == 0:
            return f(x, y)
        h = x
        for _ in range(tape):
            h = f(h, y)
        x.grad = None
        h.sum().backward()
    return once


def top_k(k, file, device):
    x = torch.frombuffer(bytearray(open(file, 'rb').read()), dtype=torch.float32).to(device)
    return lambda: x[torch.topk(x.abs(), k, sorted=False).indices.sort().values]


def tell(**answer):
    print(json.dumps(answer), flush=True)


def main():
    device = torch.device(sys.argv[2])
    if device.type == 'cuda' and not torch.cuda.is_available():
        tell(error=f'the PyTorch of {sys.executable} finds no GPU (--against torch): install one that is built with CUDA, '
                   'or leave it out')
        sys.exit(1)
    torch.set_num_threads(int(sys.argv[1]))
    torch.manual_seed(0)
    wait = torch.cuda.synchronize if device.type == 'cuda' else lambda: None
    tell(ready=True, version=torch.__version__)
    for line in sys.stdin:
        command, arguments = line.rstrip('\n').split(' ', 1)
        if command == 'set':
            tape, *rest = arguments.split(' ', 3)
            once, recorded = operation(int(tape), *rest), int(tape) > 0
            tell(ok=True)
        elif command == 'load':
            k, file = arguments.split(' ', 1)
            once, recorded = top_k(int(k), file, device), True
            tell(ok=True)
        else:
            n = int(arguments)
            with torch.set_grad_enabled(recorded):
                wait()
                start = time.perf_counter()
                for _ in range(n):
                    once()
                wait()
                seconds = time.perf_counter() - start
            tell(seconds=seconds / n)


if __name__ == '__main__':
    main()
