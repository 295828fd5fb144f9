#!/usr/bin/env python3
"""Writes recurrent.safetensors: what PyTorch computes for recurrent layers and embeddings, forward and backward.

    python3 tests/golden/recurrent.py        (needs torch; made with 2.15.0; the result is checked in)

One safetensors file; its text "cases" is a JSON list of {layer, in, hidden, layers}; RNN also has its
nonlinearity, and some are bidirectional; LSTMCell is called once a step. Case i has tensors
    i.x  i.y  i.dy  i.dx        input, output, the gradient that came from above, the input's gradient (not of indices)
    i.p.NAME  i.g.NAME          parameters and their gradients
    i.h  i.c  i.hn  i.cn        state before and after (c: LSTM and LSTMCell only)
    i.dh  i.dc                  gradient of the state before (LSTMCell only)
"""
import torch
import torch.nn as nn

from cases import cases, keep, write

torch.manual_seed(21)
torch.set_num_threads(1)


def keep_module(i, module):
    for n, p in module.named_parameters():
        keep(f"{i}.p.{n}", p), keep(f"{i}.g.{n}", p.grad)


def recurrent(kind, steps, batch, size, hidden, layers, **options):
    i = str(len(cases))
    module = getattr(nn, kind)(size, hidden, layers, **options)
    for p in module.parameters():
        p.data.normal_(0, 0.5)
    x = torch.randn(steps, batch, size, requires_grad=True)
    states = layers * (2 if options.get("bidirectional") else 1)
    h, c = torch.randn(states, batch, hidden), torch.randn(states, batch, hidden)
    y, state = module(x, (h, c) if kind == "LSTM" else h)
    dy = torch.randn(y.shape)
    y.backward(dy)
    keep(i + ".x", x), keep(i + ".y", y), keep(i + ".dy", dy), keep(i + ".dx", x.grad), keep(i + ".h", h)
    keep(i + ".hn", state[0] if kind == "LSTM" else state)
    if kind == "LSTM":
        keep(i + ".c", c), keep(i + ".cn", state[1])
    keep_module(i, module)
    cases.append({"layer": kind, "in": size, "hidden": hidden, "layers": layers, **options})


for kind in ("LSTM", "GRU"):
    for steps in (1, 35):
        for batch in (1, 20):
            for layers in (1, 2):
                recurrent(kind, steps, batch, 3, 4, layers)
    recurrent(kind, 3, 2, 5, 37, 2)

for shape in [(6,), (5, 3)]:
    i = str(len(cases))
    module = nn.Embedding(4, 5)
    x = torch.randint(0, 4, shape)
    y = module(x)
    dy = torch.randn(y.shape)
    y.backward(dy)
    keep(i + ".x", x), keep(i + ".y", y), keep(i + ".dy", dy)
    keep_module(i, module)
    cases.append({"layer": "Embedding", "in": 4, "hidden": 5, "layers": 1})

for nonlinearity in ("tanh", "relu"):
    for steps, batch, layers in [(1, 1, 1), (5, 3, 1), (35, 2, 2)]:
        recurrent("RNN", steps, batch, 3, 17, layers, nonlinearity=nonlinearity)

i = str(len(cases))
module = nn.LSTMCell(3, 5)
x = torch.randn(4, 2, 3, requires_grad=True)
h = h0 = torch.randn(2, 5, requires_grad=True)
c = c0 = torch.randn(2, 5, requires_grad=True)
y = []
for t in range(4):
    h, c = module(x[t], (h, c))
    y.append(h)
y = torch.stack(y)
dy = torch.randn(y.shape)
y.backward(dy)
for name, t in {"x": x, "y": y, "dy": dy, "dx": x.grad, "h": h0, "c": c0, "hn": h, "cn": c, "dh": h0.grad,
                "dc": c0.grad}.items():
    keep(f"{i}.{name}", t)
keep_module(i, module)
cases.append({"layer": "LSTMCell", "in": 3, "hidden": 5, "layers": 1})

for kind in ("LSTM", "GRU", "RNN"):
    recurrent(kind, 4, 3, 2, 5, 1, bidirectional=True)
    recurrent(kind, 7, 2, 3, 4, 2, bidirectional=True)

write("recurrent.safetensors")
