#!/usr/bin/env python3
"""Writes layers.safetensors: what PyTorch computes for every layer and loss, forward and backward.

    python3 tests/golden/layers.py        (needs torch; made with 2.15.0; the result is checked in)

One safetensors file; its text "cases" is a JSON list of {layer, options, training}. Case i has tensors
    i.x  i.y  i.dy  i.dx        input, output, the gradient that came from above, the input's gradient
    i.p.NAME  i.g.NAME          parameters and their gradients
    i.b.NAME  i.a.NAME          buffers before and after
    i.r  i.dr                   what is added to a batch norm's output, and its gradient
    i.labels  i.target          of losses
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

from cases import cases, keep, write

torch.manual_seed(20)
torch.set_num_threads(1)


def case(layer, options, shape, module=None, training=True, function=None, residual=False, whole_numbers=False):
    """Runs module (or function) on a random x of that shape and keeps everything."""
    i = str(len(cases))
    x = torch.randn(shape)
    if whole_numbers:  # many equal values: which one of them is "the" largest?
        x = torch.round(x)
    x.requires_grad_()
    r = torch.randn(shape, requires_grad=True) if residual else None
    if module is not None:
        module.train(training)
        module.zero_grad()
        for n, b in module.named_buffers():
            if n == "running_mean":
                b.copy_(torch.randn(b.shape))
            if n == "running_var":
                b.copy_(torch.rand(b.shape) + 0.5)
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            for p in module.parameters():
                p.data.copy_(torch.randn(p.shape))
        for n, p in module.named_parameters():
            keep(f"{i}.p.{n}", p)
        for n, b in module.named_buffers():
            keep(f"{i}.b.{n}", b.clone())
    f = function if function else module
    y = f(x, r) if residual else f(x)
    dy = torch.randn(y.shape)
    y.backward(dy)
    keep(i + ".x", x), keep(i + ".y", y), keep(i + ".dy", dy), keep(i + ".dx", x.grad)
    if residual:
        keep(i + ".r", r), keep(i + ".dr", r.grad)
    if module is not None:
        for n, p in module.named_parameters():
            keep(f"{i}.g.{n}", p.grad)
        for n, b in module.named_buffers():
            keep(f"{i}.a.{n}", b)
    cases.append({"layer": layer, "options": options, "training": training})


def conv(shape, out, k, relu=False, **o):
    m = nn.Conv2d(shape[1], out, k, stride=o.get("stride", 1), padding=o.get("pad", 0), dilation=o.get("dilation", 1),
                  groups=o.get("groups", 1), bias=o.get("bias", True))
    options = dict(o, **{"in": shape[1], "out": out, "kernel": k, "relu": relu})
    case("Conv2d", options, shape, m, function=(lambda x: F.relu(m(x))) if relu else None)


conv((2, 1, 9, 9), 6, 5, pad=2)
conv((2, 1, 9, 9), 6, 5, pad=2, relu=True)
conv((2, 6, 7, 6), 16, 5)
conv((2, 3, 8, 8), 16, 3, pad=1, bias=False)
conv((2, 3, 9, 9), 32, 3, pad=1, stride=2, relu=True)
conv((1, 16, 6, 6), 16, 3, pad=1)
conv((1, 16, 6, 8), 16, 3, pad=1, bias=False)
conv((1, 16, 9, 5), 16, 3, pad=1, relu=True)
conv((1, 16, 8, 8), 32, 3, pad=1, stride=2, bias=False)
conv((2, 32, 4, 5), 16, 1)
conv((1, 32, 2, 2), 16, 3, pad=1)
conv((1, 16, 11, 10), 16, 3, pad=1)
conv((1, 16, 7, 7), 16, 3, pad=2, dilation=2)
conv((2, 4, 7, 6), 6, 3, groups=2)
conv((1, 32, 5, 5), 32, 3, pad=1, groups=2)
conv((2, 8, 6, 6), 8, 3, pad=1, groups=8)
conv((2, 5, 7, 7), 7, 2, stride=3, pad=1)
conv((1, 2, 5, 5), 3, 5)

for n, i, o, relu, bias in [(5, 7, 4, False, True), (1, 9, 3, True, True), (4, 16, 32, False, True), (3, 33, 17, True, True),
                            (6, 8, 8, False, False)]:
    m = nn.Linear(i, o, bias=bias)
    case("Linear", {"in": i, "out": o, "bias": bias, "relu": relu}, (n, i), m, function=(lambda x: F.relu(m(x))) if relu else None)

for shape in [(6, 5), (4, 16)]:
    for training in (True, False):
        case("BatchNorm1d", {"channels": shape[1]}, shape, nn.BatchNorm1d(shape[1]), training)
for shape in [(4, 3, 5, 4), (2, 6, 4, 4), (3, 16, 5, 3), (2, 32, 2, 3), (1, 16, 3, 3), (2, 20, 3, 2)]:
    for training in (True, False):
        m = nn.BatchNorm2d(shape[1])
        case("BatchNorm2d", {"channels": shape[1]}, shape, m, training)
    m = nn.BatchNorm2d(shape[1])
    case("BatchNorm2d", {"channels": shape[1], "relu": True}, shape, m, True, function=lambda x: F.relu(m(x)))
    case("BatchNorm2d", {"channels": shape[1], "relu": True, "residual": True}, shape, m, True, residual=True,
         function=lambda x, r: F.relu(m(x) + r))
m = nn.BatchNorm2d(3, eps=1e-3, momentum=0.3)
case("BatchNorm2d", {"channels": 3, "epsilon": 1e-3, "momentum": 0.3}, (2, 3, 4, 4), m)

for shape, k, s, p, ceil in [((2, 6, 8, 8), 2, 2, 0, False), ((2, 1, 6, 6), 2, 2, 0, False), ((2, 16, 7, 5), 2, 2, 0, False),
                             ((2, 3, 7, 5), 2, 2, 0, False), ((1, 32, 6, 6), 3, 2, 1, False), ((2, 5, 7, 7), 3, 2, 0, True),
                             ((2, 20, 4, 4), 2, 2, 0, False), ((1, 28, 4, 5), 3, 1, 1, False), ((1, 7, 7, 9), 3, 3, 0, False),
                             ((2, 3, 5, 5), 2, 2, 0, True), ((2, 4, 6, 6), 2, 1, 0, False), ((2, 16, 5, 5), 2, 3, 1, True),
                             ((1, 6, 9, 9), 4, 4, 2, True), ((1, 40, 4, 4), 2, 2, 0, False)]:
    for whole in (False, True):
        case("MaxPool2d", {"kernel": k, "stride": s, "pad": p, "ceil_mode": ceil}, shape, nn.MaxPool2d(k, s, p, ceil_mode=ceil),
             whole_numbers=whole)

for shape, k, s, p, ceil, include in [((2, 6, 8, 8), 2, 2, 0, False, True), ((2, 16, 7, 5), 3, 2, 1, False, True),
                                      ((2, 16, 7, 5), 3, 2, 1, False, False), ((2, 3, 7, 7), 3, 2, 1, True, True),
                                      ((2, 5, 7, 7), 3, 2, 1, True, False), ((1, 32, 5, 5), 5, 1, 0, False, True),
                                      ((1, 20, 5, 5), 3, 1, 1, False, True), ((2, 3, 5, 5), 2, 2, 0, True, True)]:
    case("AvgPool2d", {"kernel": k, "stride": s, "pad": p, "ceil_mode": ceil, "count_include_pad": include}, shape,
         nn.AvgPool2d(k, s, p, ceil_mode=ceil, count_include_pad=include))

for shape, h, w in [((2, 32, 4, 4), 1, 1), ((2, 10, 5, 4), 1, 1), ((2, 16, 7, 5), 3, 2), ((2, 3, 7, 5), 7, 5), ((1, 18, 3, 3), 5, 4),
                    ((2, 1, 6, 6), 2, 3)]:
    case("AdaptiveAvgPool2d", {"out_h": h, "out_w": w}, shape, nn.AdaptiveAvgPool2d((h, w)))

for layer, m in [("ReLU", nn.ReLU()), ("Tanh", nn.Tanh()), ("Sigmoid", nn.Sigmoid()), ("Flatten", nn.Flatten())]:
    for shape in [(3, 7), (2, 3, 4, 5), (2, 16, 3, 3), (1, 32, 1, 1)]:
        case(layer, {}, shape, m)

for shape, o in [((2, 16, 3, 4), {"size": 5, "alpha": 0.3, "beta": 0.75, "k": 2.0}), ((2, 7, 3, 3), {"size": 3, "alpha": 0.5, "beta": 0.75, "k": 1.0}),
                 ((1, 20, 2, 3), {"size": 4, "alpha": 0.2, "beta": 0.5, "k": 1.0}), ((2, 32, 2, 2), {"size": 1, "alpha": 0.2, "beta": 0.75, "k": 1.0}),
                 ((1, 3, 2, 2), {"size": 5, "alpha": 0.2, "beta": 0.75, "k": 1.0})]:
    case("LocalResponseNorm", o, shape, nn.LocalResponseNorm(**o))

for shape, channels in [((1, 16, 6, 6), 32), ((1, 32, 5, 5), 64), ((1, 3, 5, 4), 8), ((2, 16, 4, 4), 16)]:
    extra = channels - shape[1]
    case("PadShortcut", {"channels": channels}, shape,
         function=lambda x: F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, extra // 2, extra - extra // 2)))

# Two inputs: x, and a second one made from it by a rotation of its channels.
for shape in [(2, 16, 3, 3), (2, 3, 4, 4), (2, 5)]:
    case("AddRotated", {}, shape, function=lambda x: x + torch.tanh(x))
    case("ConcatTwice", {}, shape, function=lambda x: torch.cat([x, torch.tanh(x), x], 1))

for n, k, smoothing, factor in [(4, 10, 0.0, 1), (7, 3, 0.1, 1), (3, 100, 0.1, 1), (5, 10, 0.0, 300), (1, 2, 0.3, 1)]:
    i = str(len(cases))
    x = (torch.randn(n, k) * factor).requires_grad_()
    labels = torch.randint(0, k, (n,))
    y = F.cross_entropy(x, labels, label_smoothing=smoothing)
    y.backward()
    keep(i + ".x", x), keep(i + ".y", y.reshape(1)), keep(i + ".dx", x.grad), keep(i + ".labels", labels)
    cases.append({"layer": "CrossEntropy", "options": {"label_smoothing": smoothing}, "training": True})

for shape in [(4, 3), (2, 16, 2, 2)]:
    i = str(len(cases))
    x, target = torch.randn(shape, requires_grad=True), torch.randn(shape)
    y = F.mse_loss(x, target)
    y.backward()
    keep(i + ".x", x), keep(i + ".y", y.reshape(1)), keep(i + ".dx", x.grad), keep(i + ".target", target)
    cases.append({"layer": "MSE", "options": {}, "training": True})

m = nn.Linear(4, 6)
case("Linear", {"in": 4, "out": 6, "bias": True}, (2, 3, 4), m)
for layer, options, m in [("GELU", {}, nn.GELU()), ("SiLU", {}, nn.SiLU()), ("LeakyReLU", {"slope": 0.2}, nn.LeakyReLU(0.2)),
                          ("Softmax", {"dim": 1}, nn.Softmax(1))]:
    for shape in [(3, 7), (2, 3, 4, 5), (2, 16, 3, 3)]:
        case(layer, options, shape, m)
for shape in [(3, 7), (2, 5, 16), (2, 16, 3, 4)]:
    case("LayerNorm", {"dim": shape[-1], "epsilon": 1e-4}, shape, nn.LayerNorm(shape[-1], eps=1e-4))


def conv_transpose(shape, out, k, **o):
    m = nn.ConvTranspose2d(shape[1], out, k, stride=o.get("stride", 1), padding=o.get("pad", 0),
                           output_padding=o.get("output_pad", 0), dilation=o.get("dilation", 1), groups=o.get("groups", 1),
                           bias=o.get("bias", True))
    case("ConvTranspose2d", dict(o, **{"in": shape[1], "out": out, "kernel": k}), shape, m)


conv_transpose((2, 3, 5, 4), 4, 3)
conv_transpose((2, 3, 5, 4), 4, 3, stride=2, pad=1, output_pad=1)
conv_transpose((1, 16, 4, 4), 16, 3, pad=1, bias=False)
conv_transpose((1, 16, 5, 3), 32, 2, stride=2)
conv_transpose((2, 4, 4, 4), 6, 3, groups=2, dilation=2)
conv_transpose((1, 32, 3, 3), 3, 5, stride=3, pad=2)
for shape in [(2, 3, 4, 5), (1, 16, 3, 2)]:
    for scale in (2, 3):
        case("Upsample", {"scale": scale, "bilinear": False}, shape, nn.Upsample(scale_factor=scale))
        case("Upsample", {"scale": scale, "bilinear": True}, shape, nn.Upsample(scale_factor=scale, mode="bilinear"))


class CausalSelfAttention(nn.Module):
    def __init__(self, dim, heads, bias):
        super().__init__()
        self.heads = heads
        self.c_attn, self.c_proj = nn.Linear(dim, 3 * dim, bias=bias), nn.Linear(dim, dim, bias=bias)

    def forward(self, x):
        batch, steps, dim = x.shape
        q, k, v = (t.view(batch, steps, self.heads, -1).transpose(1, 2) for t in self.c_attn(x).split(dim, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(batch, steps, dim))


for shape, heads, bias in [((2, 5, 12), 3, True), ((1, 19, 32), 1, False), ((2, 1, 8), 2, True)]:
    case("CausalSelfAttention", {"dim": shape[2], "heads": heads, "bias": bias}, shape,
         CausalSelfAttention(shape[2], heads, bias))
for shape in [(3, 7), (2, 3, 4, 5), (2, 16, 3, 3)]:
    case("GELU", {"tanh": True}, shape, nn.GELU(approximate="tanh"))
for shape in [(3, 7), (2, 5, 40), (2, 16, 3, 4)]:
    m = nn.RMSNorm(shape[-1], eps=1e-4)
    m.weight.data.copy_(torch.randn(shape[-1]))
    case("RMSNorm", {"dim": shape[-1], "epsilon": 1e-4}, shape, m)
    m = nn.LayerNorm(shape[-1], eps=1e-4)
    m.weight.data.copy_(torch.randn(shape[-1])), m.bias.data.copy_(torch.randn(shape[-1]))
    case("LayerNorm", {"dim": shape[-1], "epsilon": 1e-4}, shape, m)
write("layers.safetensors")
