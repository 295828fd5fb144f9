#!/usr/bin/env python3
"""Writes operations.safetensors: what PyTorch computes for every operation on tensors, forward and backward.

    python3 tests/golden/operations.py        (needs torch; made with 2.15.0; the result is checked in)

One safetensors file; its text "cases" is a JSON list of expressions, as they are read below: tests/operations_test.cc
has the same ones for laconic. Case i has tensors
    i.x  i.y  i.z               inputs, as many as the expression names
    i.result  i.above           the result, and the gradient that came from above; no gradient for a result of int64
    i.dx  i.dy  i.dz            gradients of inputs
and i.index where the expression names an index.
"""
import torch
import torch.nn.functional as F

from cases import cases, keep, write

torch.manual_seed(21)
torch.set_num_threads(1)


def spaced(shape, lowest=None):
    """Numbers that differ by 0.05 at least, none within 0.01 of 0: a small change changes no order and no sign."""
    n = max(1, torch.Size(shape).numel())
    values = 0.05 * (torch.arange(n) - n // 2) + 0.02
    if lowest is not None:
        values += lowest - values.min()
    return values[torch.randperm(n)].reshape(shape)


def case(expression, *shapes, lowest=None, index=None):
    i = str(len(cases))
    names = {name: spaced(shape, lowest).requires_grad_() for name, shape in zip('xyz', shapes)}
    if index is not None:
        index = torch.tensor(index)
        keep(i + '.index', index)
    result = eval(expression, {'torch': torch, 'F': F, 'index': index, **names})
    for name, t in names.items():
        keep(f'{i}.{name}', t)
    if result.dtype == torch.bool:
        result = result.float()
    keep(i + '.result', result)
    if result.requires_grad:
        above = torch.randn(result.shape)
        result.backward(above)
        keep(i + '.above', above)
        for name, t in names.items():
            keep(f'{i}.d{name}', t.grad)
    cases.append(expression)


for f in ('torch.relu(x)', 'torch.abs(x)', 'torch.exp(x)', 'torch.tanh(x)', 'torch.sigmoid(x)', 'F.silu(x)', 'F.gelu(x)',
          'F.leaky_relu(x, 0.1)', 'torch.clamp(x, -0.2, 0.3)', '-x', 'x + 2', '2 - x', '3 * x', 'x / 4', 'x ** 2'):
    case(f, (4, 7))
for f in ('torch.sqrt(x)', 'torch.log(x)', 'x ** 2.5', '1 / x'):
    case(f, (4, 7), lowest=0.2)

met = [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((2, 3, 2), (3, 1)), ((1,), (2, 2)), ((), (3,)),
       ((2, 1, 3), (2, 1)), ((3, 1), (2, 1, 4)), ((2, 1, 3, 1), (4, 1, 5))]
for f in ('x + y', 'x - y', 'x * y', 'torch.maximum(x, y + 0.01)', 'torch.minimum(x, y + 0.01)',
          'torch.where(x < y + 0.01, 2 * x, y)'):
    for a, b in met:
        case(f, a, b)
for f in ('x / y', 'x ** y'):
    for a, b in met:
        case(f, a, b, lowest=0.2)
case('x * x + x', (2, 3))
case('torch.where(x > 0, x * y, z)', (2, 3), (3,), (2, 1))
for f in ('x < y', 'x <= y', 'x > y', 'x >= y', 'x == y', 'x != y', 'x > 0.1', 'x < 0.1'):
    case(f, (3, 4), (4,))

for keepdim in (False, True):
    for dims in ((0,), (1,), (-1,), (0, 1), (0, 2), (2, 1, 0), (1, 2)):
        case(f'torch.sum(x, {dims}, keepdim={keepdim})', (2, 3, 4))
        case(f'torch.mean(x, {dims}, keepdim={keepdim})', (2, 3, 4))
        case(f'torch.var(x, {dims}, keepdim={keepdim})', (2, 3, 4))
case('torch.var(x, (0, 2), unbiased=False)', (2, 3, 4))
case('torch.sum(x, (0, 2, 4))', (2, 3, 2, 3, 2))
for dim in (0, 1, -1):
    for f in ('torch.amax(x, {})', 'torch.amin(x, {}, keepdim=True)', 'torch.argmax(x, {})', 'torch.argmin(x, {})',
              'torch.softmax(x, {})', 'torch.log_softmax(x, {})'):
        case(f.format(dim), (2, 3, 4))
case('torch.softmax(x, -1)', (3, 70))
case('torch.log_softmax(x, -1)', (3, 70))
case('torch.sum(x)', (3, 50), lowest=0.2), case('torch.mean(x)', (3, 50), lowest=0.2)
case('torch.amax(x)', (3, 5)), case('torch.amin(x)', (3, 5))

case('x.view(4, -1) * x.view(4, 6)', (2, 3, 4))
case('x[1:2] * x[0:1]', (2, 3, 4))
case('x.flatten()[3:8] * x.flatten()[4:9]', (2, 3, 4))
case('x.reshape(-1, 2)', (2, 3, 4))
case('x.unsqueeze(1).squeeze(1) * x.unsqueeze(-1)', (3,), lowest=0.5)
case('x.permute(2, 0, 1)', (2, 3, 4)), case('x.permute(3, 1, 0, 2)', (2, 3, 4, 5))
for a, b in ((0, 1), (1, 2), (0, -1), (1, 1)):
    case(f'x.transpose({a}, {b})', (2, 3, 4))
case('x.expand(2, 3, 4)', (3, 1)), case('x.expand(4, 2, 3)', (2, 1))
case('x.transpose(0, 1).reshape(4, 3).transpose(0, 1) * x.view(3, 4)', (2, 3, 2))
for dim in (0, 1, -1):
    case(f'x.narrow({dim}, 1, 1) + x.narrow({dim}, 0, 2)', (2, 3, 4))
    case(f'x.select({dim}, -1)', (2, 3, 4))
    case(f'torch.cat((x, y, x), {dim})', (2, 3, 4), (2, 3, 4))
    case(f'torch.stack((x, y), {dim})', (2, 3, 4), (2, 3, 4))
    case(f'x.split(2, {dim})[-1]', (2, 3, 4))
    case(f'x.flip({dim})', (2, 3, 4))
    case(f'x.index_select({dim}, index)', (2, 3, 4), index=[1, 0, 1, 1])
case('torch.cat((x, y), 1)', (2, 3), (2, 1))
case('x.gather(0, index)', (2, 3, 4), index=[[[1, 0, 1], [0, 0, 1]]])
case('x.gather(2, index)', (2, 3, 4), index=[[[3, 3], [0, 1]], [[2, 0], [1, 1]]])
case('F.one_hot(index, 4) + x', (1,), index=[[0, 3], [1, 1]])

for a, b in (((2, 3), (3, 4)), ((3,), (3, 4)), ((2, 3), (3,)), ((3,), (3,)), ((2, 2, 3), (2, 3, 4)), ((2, 2, 3), (3, 4)),
             ((2, 3), (2, 3, 4)), ((2, 1, 2, 3), (3, 3, 2)), ((1, 2, 3), (2, 3, 1)), ((3, 17, 33), (3, 33, 18))):
    case('x @ y', a, b)
case('torch.softmax(x @ y.transpose(-2, -1) / 2, -1) @ z', (2, 3, 4), (2, 5, 4), (2, 5, 3))

case('F.nll_loss(torch.log_softmax(x, 1), index)', (3, 4), index=[0, 3, 1])
case('F.cross_entropy(x, index)', (3, 4), index=[0, 3, 1])
case('F.cross_entropy(x, index, label_smoothing=0.2)', (3, 4), index=[0, 3, 1])
case('F.mse_loss(x, y)', (3, 4), (3, 4))
case('F.binary_cross_entropy_with_logits(x, torch.full_like(x, 0.3))', (3, 40))
write('operations.safetensors')
