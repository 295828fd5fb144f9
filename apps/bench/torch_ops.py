"""Operations on tensors in PyTorch: `laconic bench ops --against torch` uses it.

    python3 torch_ops.py THREADS     answers commands on stdin, one JSON object a line on stdout:
    set TAPE X Y EXPRESSION          shapes as 4,4; TAPE is the number of times that the expression is applied to its own
                                     result before the sum of that goes backward, or 0: once, and nothing is recorded
                                                                                                  -> {"ok": true}
    run N                            N times                                                      -> {"seconds": of one}
"""
import json
import sys
import time

import torch
import torch.nn.functional as F


def main():
    torch.set_num_threads(int(sys.argv[1]))
    torch.manual_seed(0)
    print(json.dumps({'ready': True, 'version': torch.__version__}), flush=True)
    for line in sys.stdin:
        command, arguments = line.rstrip('\n').split(' ', 1)
        if command == 'set':
            tape, *shapes, expression = arguments.split(' ', 3)
            tape = int(tape)
            x, y = (torch.rand([int(d) for d in s.split(',')]) + 0.5 for s in shapes)
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
            print(json.dumps({'ok': True}), flush=True)
        else:
            n = int(arguments)
            start = time.perf_counter()
            if tape == 0:
                with torch.no_grad():
                    for _ in range(n):
                        once()
            else:
                for _ in range(n):
                    once()
            print(json.dumps({'seconds': (time.perf_counter() - start) / n}), flush=True)


if __name__ == '__main__':
    main()
