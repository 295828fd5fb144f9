#!/usr/bin/env python3
"""Writes models.safetensors: what PyTorch computes for the large models of the zoo, forward and backward.

    /usr/bin/python3 tests/golden/models.py        (needs torch and torchvision; made with 2.15 and 0.29; two minutes; the
                                                     result is checked in)

Weights and images are not kept: both sides draw them by a formula (values(), below). Its text "cases" is a JSON list of
{model, side, batch, classes, hidden, images, parameters: names, ...}. "frozen": over few values batch norms of a deep model
amplify any rounding, so they go by their running statistics in training too. "images" is the name that the images are
drawn by: the first of x1, x2, ... that stay away from where a ReLU or a max-pooling has a kink. There the gradient jumps,
by per cents in a deep layer, and where it is within rounding each implementation may rightly take another side. "margin" is how
near they come, in the largest errors that PyTorch's float32 makes in that layer: other ways to add up (Winograd's) make
some times larger ones. The more values a model has the fewer images stay away: so pictures are small. "rounding" is how far
float32 takes PyTorch's own gradients from these, as a part of their length (plus a thousandth of the longest's: some are
zero). Case i has tensors
    i.logits      [batch, classes], in evaluation; all computed in float64
    i.loss        [1], in training without dropout, auxiliary heads included
    i.gradients   [parameters, 3]: of each gradient in training its 2-norm, its product with values(), its first element
"""
import copy
import itertools
import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision.models as zoo

from cases import cases, keep, write

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../apps/bench"))
import torch_peer as peer  # noqa: E402

torch.set_num_threads(1)


def fnv1a(text):
    h = 2166136261
    for c in text.encode():
        h = (h ^ c) * 16777619 % 2**32
    return h


def values(name, n, scale):
    """n numbers in [-scale, scale) that depend on name alone: of a hash of (name, place), its upper 24 bits."""
    h = np.arange(n, dtype=np.uint32) * np.uint32(0x9E3779B1) + np.uint32(fnv1a(name))
    h ^= h >> np.uint32(15)
    h *= np.uint32(0x85EBCA77)
    h ^= h >> np.uint32(13)
    h *= np.uint32(0xC2B2AE3D)
    h ^= h >> np.uint32(16)
    return ((h >> np.uint32(8)).astype(np.float32) * np.float32(2**-23) - np.float32(1)) * np.float32(scale)


def fill(model):
    for name, t in list(model.named_parameters()) + list(model.named_buffers()):
        n = t.numel()
        if name.endswith("num_batches_tracked"):
            continue
        if t.dim() > 1:
            v = values(name, n, np.sqrt(6.0 / (n / t.shape[0])))
        elif name.endswith("running_var"):
            v = np.float32(1) + values(name, n, 0.25)
        elif name.endswith("weight"):  # of a batch norm
            v = np.float32(0.75) + values(name, n, 0.25)
        else:
            v = values(name, n, 0.1)
        t.data.copy_(torch.from_numpy(v).reshape(t.shape))


def train(model, frozen):
    model.train()
    for m in model.modules():
        if frozen and isinstance(m, nn.BatchNorm2d):
            m.eval()


def inputs_of_kinks(model, x, frozen):
    """The inputs of all ReLUs and max-poolings of a training step, in double: pairs of (input, None) and of
    (input, (size, stride, padding, [height, width] of the result))."""
    relu, pool, inputs = F.relu, F.max_pool2d, []

    def watched_relu(x, inplace=False):
        inputs.append((x.double(), None))
        return relu(x)

    def watched_pool(x, size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        y = pool(x, size, stride, padding, dilation, ceil_mode)
        inputs.append((x.double(), (size, stride or size, padding, y.shape[2:])))
        return y

    F.relu, F.max_pool2d = watched_relu, watched_pool
    try:
        with torch.no_grad():
            train(model, frozen)
            model(x)
    finally:
        F.relu, F.max_pool2d = relu, pool
    return inputs


def distances(x, pool):
    """How far each place is from its kink: an input of a ReLU from zero, the largest value of a window from the second."""
    if pool is None:
        return x.abs()
    size, stride, padding, (h, w) = pool
    wide = F.pad(x, (padding, padding + stride) * 2, value=-np.inf)
    largest = wide.unfold(2, size, stride).unfold(3, size, stride)[:, :, :h, :w].flatten(4).topk(2, -1)[0]
    lead = largest[..., 0] - largest[..., 1]
    return lead[lead > 0]  # equals: zeros of a ReLU, or one value that an earlier pooling has copied


def margin(single, double, x, frozen):
    """How near a training step comes to a kink: the least distance of a layer, over the largest error that float32 makes
    in that layer; of all layers the least."""
    rounded, exact = inputs_of_kinks(single, x, frozen), inputs_of_kinks(double, x.double(), frozen)
    return min(float(distances(of, pool).min() / (near - of).abs().max()) for (near, _), (of, pool) in zip(rounded, exact))


def run(model, x, labels, frozen):
    """Logits in evaluation; loss and gradients in training, a row for each parameter."""
    fill(model)
    model.zero_grad()
    with torch.no_grad():
        logits = model.eval()(x)
    train(model, frozen)
    y = model(x)
    main, *heads = y if isinstance(y, tuple) else (y,)
    loss = F.cross_entropy(main, labels) + 0.3 * sum(F.cross_entropy(h, labels) for h in heads)
    loss.backward()
    rows = []
    for n, p in model.named_parameters():
        g = p.grad.double().flatten()
        rows.append([g.norm(), (g * torch.from_numpy(values(n, len(g), 1))).sum(), g[0]])
    return logits, loss.detach().reshape(1), torch.tensor(rows)


def case(name, model, side, batch=2, classes=10, hidden=0, frozen=False, apart=5, **options):
    i = str(len(cases))
    for m in model.modules():
        if isinstance(m, nn.Dropout):
            m.p = 0.0
    labels = torch.arange(batch) * 3 % classes
    fill(model)
    single, double = copy.deepcopy(model).float(), model.double()
    for n in itertools.count(1):
        x = torch.from_numpy(values(f"x{n}", batch * 3 * side * side, 1.7)).reshape(batch, 3, side, side)
        nearest = margin(single, double, x, frozen)
        if nearest >= apart:
            break
    rounded, exact = run(single, x, labels, frozen), run(double, x.double(), labels, frozen)
    length = exact[2][:, 0]
    rounding = float(((rounded[2] - exact[2]).abs().amax(1) / (length + 1e-3 * length.max())).max())
    for what, t in zip(("logits", "loss", "gradients"), exact):
        keep(f"{i}.{what}", t.float())
    cases.append(dict({"model": name, "side": side, "batch": batch, "classes": classes, "hidden": hidden,
                       "images": f"x{n}", "margin": nearest, "rounding": rounding, "frozen": frozen, "parameters": [n for n, _ in model.named_parameters()]}, **options))
    print(name, float(exact[1]), float(exact[0].abs().max()), f"x{n}", nearest, rounding, flush=True)


def narrow(model, hidden, places):
    """A torchvision model with its fully connected layers cut down."""
    first, second, last = places
    c = model.classifier
    c[first], c[second] = nn.Linear(c[first].in_features, hidden), nn.Linear(hidden, hidden)
    c[last] = nn.Linear(hidden, 10)
    return model


def v1(model):
    """The stride in the first 1x1 convolution."""
    for m in model.modules():
        if isinstance(m, zoo.resnet.Bottleneck):
            m.conv1.stride, m.conv2.stride = m.conv2.stride, (1, 1)
    return model


HIDDEN = 64
case("alexnet", narrow(zoo.alexnet(), HIDDEN, (1, 4, 6)), 95, hidden=HIDDEN)
case("alexnet-original", peer.alexnet_2012(2, 2, True, 10, HIDDEN), 95, hidden=HIDDEN)
case("alexnet-ungrouped", peer.alexnet_2012(1, 0, False, 10, HIDDEN), 99, hidden=HIDDEN)
case("vgg16", narrow(zoo.vgg16(), HIDDEN, (0, 3, 6)), 32, batch=1, hidden=HIDDEN)
case("vgg16_bn", narrow(zoo.vgg16_bn(), HIDDEN, (0, 3, 6)), 32, batch=1, hidden=HIDDEN, frozen=True)
case("resnet18", zoo.resnet18(num_classes=10), 64, apart=3)
case("resnet34", zoo.resnet34(num_classes=10), 64, batch=1, frozen=True)
case("resnet50", zoo.resnet50(num_classes=10), 32, batch=1, frozen=True)
case("resnet50", v1(zoo.resnet50(num_classes=10)), 33, batch=1, frozen=True, resnet_v1=True)
case("resnet101", zoo.resnet101(num_classes=10), 32, batch=1, frozen=True)
case("googlenet", peer.GoogLeNet(10), 65, batch=1)
case("googlenet", peer.GoogLeNet(10, True), 97, batch=1, apart=2, auxiliary_heads=True)
case("googlenet-torchvision", zoo.googlenet(num_classes=10, aux_logits=False, init_weights=False), 33, batch=1, frozen=True)
case("googlenet-torchvision", zoo.googlenet(num_classes=10, aux_logits=True, init_weights=False), 33, batch=1, frozen=True,
     auxiliary_heads=True)

write("models.safetensors")
