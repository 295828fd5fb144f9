#!/usr/bin/env python3
"""Writes tests/golden/optim.json: ten steps of each optimiser and clipping, and learning rates, as PyTorch makes them.

Run with any PyTorch:  python3 tests/golden/optim.py > tests/golden/optim.json
Two parameters (7 numbers of role linear, 5 of role bias); step k's gradient of element i is
g = sin(0.7 i + 1.3 k) (1 + 0.1 i), the initial value cos(0.5 i) (i runs over both parameters). lr = 0.1 / k.
"""
import json
import math

import torch

SIZES, STEPS = (7, 5), 10


def run(make, no_decay_bias=False, weight_decay=0.0, clip=None):
    first = [[math.cos(0.5 * i) for i in range(7)], [math.cos(0.5 * i) for i in range(7, 12)]]
    params = [torch.tensor(v, dtype=torch.float32, requires_grad=True) for v in first]
    groups = [{"params": [params[0]], "weight_decay": weight_decay},
              {"params": [params[1]], "weight_decay": 0.0 if no_decay_bias else weight_decay}]
    optimizer = make(groups)
    curve = []
    for k in range(1, STEPS + 1):
        for group in optimizer.param_groups:
            group["lr"] = 0.1 / k
        start = 0
        for p in params:
            p.grad = torch.tensor([math.sin(0.7 * i + 1.3 * k) * (1 + 0.1 * i) for i in range(start, start + len(p))],
                                  dtype=torch.float32)
            start += len(p)
        if clip and clip[0] == "norm":
            torch.nn.utils.clip_grad_norm_(params, clip[1])
        if clip and clip[0] == "value":
            torch.nn.utils.clip_grad_value_(params, clip[1])
        optimizer.step()
        curve.append([float(f"{v:.9g}") for p in params for v in p.detach()])
    return curve


def rates(make, epochs=12, metrics=None):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = make(optimizer)
    out = []
    for e in range(epochs):
        out.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step(metrics[e]) if metrics else scheduler.step()
    return out


def main():
    sgd, adam, adamw = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
    s = torch.optim.lr_scheduler
    metrics = [1.0, 0.9, 0.95, 0.91, 0.92, 0.8, 0.79999, 0.81, 0.82, 0.83, 0.84, 0.7]
    golden = {
        "torch": torch.__version__.split("+")[0],
        "optimizers": {
            "sgd": run(lambda g: sgd(g, lr=0.1)),
            "sgd_decay": run(lambda g: sgd(g, lr=0.1), weight_decay=0.05),
            "sgd_momentum": run(lambda g: sgd(g, lr=0.1, momentum=0.9)),
            "sgd_momentum_decay": run(lambda g: sgd(g, lr=0.1, momentum=0.9), weight_decay=0.05),
            "sgd_dampening": run(lambda g: sgd(g, lr=0.1, momentum=0.8, dampening=0.3), weight_decay=0.01),
            "sgd_nesterov": run(lambda g: sgd(g, lr=0.1, momentum=0.9, nesterov=True), weight_decay=0.05),
            "sgd_no_decay_bias": run(lambda g: sgd(g, lr=0.1, momentum=0.9), no_decay_bias=True, weight_decay=0.05),
            "sgd_clip_norm": run(lambda g: sgd(g, lr=0.1, momentum=0.9), clip=("norm", 1.5)),
            "sgd_clip_value": run(lambda g: sgd(g, lr=0.1), clip=("value", 0.6)),
            "adam": run(lambda g: adam(g, lr=0.1)),
            "adam_decay": run(lambda g: adam(g, lr=0.1), weight_decay=0.05),
            "adamw": run(lambda g: adamw(g, lr=0.1), weight_decay=0.05),
            "adamw_no_decay_bias": run(lambda g: adamw(g, lr=0.1), no_decay_bias=True, weight_decay=0.05),
            "adamw_betas": run(lambda g: adamw(g, lr=0.1, betas=(0.8, 0.95)), weight_decay=0.05),
        },
        "schedules": {
            "step:3,0.5": rates(lambda o: s.StepLR(o, 3, 0.5)),
            "multistep:2,5,9,0.1": rates(lambda o: s.MultiStepLR(o, [2, 5, 9], 0.1)),
            "exp:0.9": rates(lambda o: s.ExponentialLR(o, 0.9)),
            "cosine": rates(lambda o: s.CosineAnnealingLR(o, 12)),
            "plateau:2,0.5": rates(lambda o: s.ReduceLROnPlateau(o, patience=2, factor=0.5), metrics=metrics),
            "plateau:0,0.5": rates(lambda o: s.ReduceLROnPlateau(o, patience=0, factor=0.5), metrics=metrics),
        },
        "metrics": metrics,
    }
    text = json.dumps(golden, indent=1)
    print(text.replace(",\n    ", ", ").replace("[\n    ", "[").replace("\n   ]", "]"))


main()
