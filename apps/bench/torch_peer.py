"""The models of the zoo in PyTorch, for comparison: `laconic bench step --against torch` and tests/parity.py use them.

As a program it answers commands on stdin, one JSON object a line on stdout:
    python3 torch_peer.py MODEL BATCH THREADS DEVICE PRECISION LAYOUT
        DEVICE: cpu | cuda[:I]    PRECISION: fp32 | tf32 | bf16 (autocast)    LAYOUT: contiguous | channels_last | compiled
    run N     N training steps (forward, backward, update)   -> {"seconds": s, "memory_bytes": b}
It begins with {"ready": true, ...}, or ends with {"error": "why"}.
Language models are trained as they are published, the gradient's norm clipped: LSTMs by SGD without momentum, GPTs by
AdamW.
"""
import contextlib
import json
import resource
import sys
import time

import torch
from torch import nn
import torch.nn.functional as F


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class Hdc(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        sizes = [784] + [500] * hidden + [10]
        self.depth = len(sizes) - 1
        for i in range(self.depth):
            setattr(self, f'fc{i + 1}', nn.Linear(sizes[i], sizes[i + 1]))

    def forward(self, x):
        x = x.flatten(1)
        for i in range(1, self.depth):
            x = F.relu(getattr(self, f'fc{i}')(x))
        return getattr(self, f'fc{self.depth}')(x)


class Classifier(nn.Module):
    """features, flatten, classifier: AlexNet-32 and VGG16-32."""

    def __init__(self, features, classifier):
        super().__init__()
        self.features, self.classifier = nn.Sequential(*features), nn.Sequential(*classifier)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def alexnet_32():
    conv, relu, pool = lambda i, o, s=1: nn.Conv2d(i, o, 3, s, 1), nn.ReLU, lambda: nn.MaxPool2d(2)
    return Classifier(
        [conv(3, 64, 2), relu(), pool(), conv(64, 192), relu(), pool(), conv(192, 384), relu(), conv(384, 256), relu(),
         conv(256, 256), relu(), pool()],
        [nn.Dropout(), nn.Linear(1024, 4096), relu(), nn.Dropout(), nn.Linear(4096, 4096), relu(), nn.Linear(4096, 10)])


def vgg16_features(batch_norm):
    features, channels = [], 3
    for c in [64, 64, 'M', 128, 128, 'M', 256, 256, 256, 'M', 512, 512, 512, 'M', 512, 512, 512, 'M']:
        if c == 'M':
            features.append(nn.MaxPool2d(2))
        else:
            features += [nn.Conv2d(channels, c, 3, padding=1), *([nn.BatchNorm2d(c)] if batch_norm else []), nn.ReLU()]
            channels = c
    return features


def vgg16_32():
    return Classifier(vgg16_features(True),
                      [nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)])


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        self.stride, self.padding = stride, (outputs - inputs) // 2

    def forward(self, x):
        shortcut = x
        if self.stride != 1 or self.padding:   # option A: subsample, zero channels half before, half after
            shortcut = F.pad(x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, self.padding, self.padding))
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + shortcut)


class CifarResNet(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        inputs = 16
        for stage, channels in enumerate([16, 32, 64], 1):
            blocks = []
            for b in range(n):
                blocks.append(BasicBlock(inputs, channels, 2 if stage > 1 and b == 0 else 1))
                inputs = channels
            setattr(self, f'layer{stage}', nn.Sequential(*blocks))
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


# The large models are torchvision's where it is installed; what it does not have, and what is short, stands here.
try:
    import torchvision.models as zoo
except ImportError:
    zoo = None


class Pooled(Classifier):
    """features, average to a fixed size whatever the image's, flatten, classifier."""

    def __init__(self, features, side, classifier):
        super().__init__(features, classifier)
        self.side = side

    def forward(self, x):
        return self.classifier(F.adaptive_avg_pool2d(self.features(x), self.side).flatten(1))


def alexnet(classes=1000, hidden=4096):
    pool, relu = lambda: nn.MaxPool2d(3, 2), nn.ReLU
    return Pooled(
        [nn.Conv2d(3, 64, 11, 4, 2), relu(), pool(), nn.Conv2d(64, 192, 5, padding=2), relu(), pool(),
         nn.Conv2d(192, 384, 3, padding=1), relu(), nn.Conv2d(384, 256, 3, padding=1), relu(),
         nn.Conv2d(256, 256, 3, padding=1), relu(), pool()], 6,
        [nn.Dropout(), nn.Linear(9216, hidden), relu(), nn.Dropout(), nn.Linear(hidden, hidden), relu(),
         nn.Linear(hidden, classes)])


def alexnet_2012(groups, padding, normalize, classes=1000, hidden=4096):
    """As published: two groups and local response normalisation; or without."""
    pool, relu = lambda: nn.MaxPool2d(3, 2), nn.ReLU
    norm = (lambda: [nn.LocalResponseNorm(5, 5e-4, 0.75, 2.0)]) if normalize else (lambda: [])
    return Pooled(
        [nn.Conv2d(3, 96, 11, 4, padding), relu(), *norm(), pool(),
         nn.Conv2d(96, 256, 5, padding=2, groups=groups), relu(), *norm(), pool(),
         nn.Conv2d(256, 384, 3, padding=1), relu(), nn.Conv2d(384, 384, 3, padding=1, groups=groups), relu(),
         nn.Conv2d(384, 256, 3, padding=1, groups=groups), relu(), pool()], 6,
        [nn.Linear(9216, hidden), relu(), nn.Dropout(), nn.Linear(hidden, hidden), relu(), nn.Dropout(),
         nn.Linear(hidden, classes)])


def vgg16(batch_norm=False, classes=1000, hidden=4096):
    relu = nn.ReLU
    return Pooled(vgg16_features(batch_norm), 7, [nn.Linear(25088, hidden), relu(), nn.Dropout(), nn.Linear(hidden, hidden),
                                                  relu(), nn.Dropout(), nn.Linear(hidden, classes)])


class GoogLeNet(nn.Module):
    """As published: 5x5 convolutions, biases, local response normalisation. Names are torchvision's."""

    class Conv(nn.Module):
        def __init__(self, *arguments, **more):
            super().__init__()
            self.conv = nn.Conv2d(*arguments, **more)

        def forward(self, x):
            return F.relu(self.conv(x))

    class Inception(nn.Module):
        def __init__(self, i, one, reduce3, three, reduce5, five, pool):
            super().__init__()
            Conv = GoogLeNet.Conv
            self.branch1 = Conv(i, one, 1)
            self.branch2 = nn.Sequential(Conv(i, reduce3, 1), Conv(reduce3, three, 3, padding=1))
            self.branch3 = nn.Sequential(Conv(i, reduce5, 1), Conv(reduce5, five, 5, padding=2))
            self.branch4 = nn.Sequential(nn.MaxPool2d(3, 1, 1), Conv(i, pool, 1))

        def forward(self, x):
            return torch.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)

    class Head(nn.Module):
        def __init__(self, i, classes):
            super().__init__()
            self.conv, self.fc1, self.fc2 = GoogLeNet.Conv(i, 128, 1), nn.Linear(2048, 1024), nn.Linear(1024, classes)
            self.dropout = nn.Dropout(0.7)

        def forward(self, x):
            x = self.conv(F.adaptive_avg_pool2d(F.avg_pool2d(x, 5, 3), 4)).flatten(1)
            return self.fc2(self.dropout(F.relu(self.fc1(x))))

    WIDTHS = {'3a': (192, 64, 96, 128, 16, 32, 32), '3b': (256, 128, 128, 192, 32, 96, 64),
              '4a': (480, 192, 96, 208, 16, 48, 64), '4b': (512, 160, 112, 224, 24, 64, 64),
              '4c': (512, 128, 128, 256, 24, 64, 64), '4d': (512, 112, 144, 288, 32, 64, 64),
              '4e': (528, 256, 160, 320, 32, 128, 128), '5a': (832, 256, 160, 320, 32, 128, 128),
              '5b': (832, 384, 192, 384, 48, 128, 128)}

    def __init__(self, classes=1000, aux_logits=False):
        super().__init__()
        self.conv1, self.conv2 = self.Conv(3, 64, 7, 2, 3), self.Conv(64, 64, 1)
        self.conv3, self.norm = self.Conv(64, 192, 3, padding=1), nn.LocalResponseNorm(5, 1e-4, 0.75, 1.0)
        for name, widths in self.WIDTHS.items():
            setattr(self, 'inception' + name, self.Inception(*widths))
        if aux_logits:
            self.aux1, self.aux2 = self.Head(512, classes), self.Head(528, classes)
        self.aux_logits, self.dropout, self.fc = aux_logits, nn.Dropout(0.4), nn.Linear(1024, classes)

    def forward(self, x):
        pool, heads = lambda t: F.max_pool2d(t, 3, 2, ceil_mode=True), []
        x = pool(self.norm(self.conv3(self.conv2(self.norm(pool(self.conv1(x)))))))
        for name in self.WIDTHS:
            x = getattr(self, 'inception' + name)(x)
            if name in ('3b', '4e'):
                x = pool(x)
            if name in ('4a', '4d') and self.aux_logits and self.training:
                heads.append((self.aux1 if name == '4a' else self.aux2)(x))
        logits = self.fc(self.dropout(F.adaptive_avg_pool2d(x, 1).flatten(1)))
        return (logits, heads[1], heads[0]) if heads else logits  # torchvision's order


def torchvision_model(name, own=None, **options):
    if zoo is None and own is None:
        raise ImportError(f'{name} is torchvision\'s, which {sys.executable} does not have (--against torch): '
                          f'install torchvision, or leave {name} out')
    return own() if zoo is None else getattr(zoo, name)(**options)


class LanguageModel(nn.Module):
    """Embedding, dropout, two LSTM layers with dropout between, dropout, decoder."""

    def __init__(self, hidden, dropout, tied, vocabulary=10000):
        super().__init__()
        self.encoder, self.drop = nn.Embedding(vocabulary, hidden), nn.Dropout(dropout)
        self.rnn = nn.LSTM(hidden, hidden, 2, dropout=dropout)
        self.decoder = nn.Linear(hidden, vocabulary)
        if tied:
            self.decoder.weight = self.encoder.weight

    def forward(self, x):
        y, _ = self.rnn(self.drop(self.encoder(x)))
        return self.decoder(self.drop(y).flatten(0, 1))


class Gpt(nn.Module):
    """GPT-2 with tokens [T, B], as laconic's GPT has them."""

    class Attention(nn.Module):
        def __init__(self, heads, width, dropout):
            super().__init__()
            self.heads, self.dropout = heads, dropout
            self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x):
            B, T, width = x.shape
            q, k, v = (t.view(B, T, self.heads, -1).transpose(1, 2) for t in self.c_attn(x).split(width, 2))
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0, is_causal=True)
            return self.c_proj(y.transpose(1, 2).reshape(B, T, width))

    class Mlp(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.c_fc, self.c_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            return self.c_proj(F.gelu(self.c_fc(x), approximate='tanh'))

    class Layer(nn.Module):
        def __init__(self, heads, width, dropout):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attn, self.mlp = Gpt.Attention(heads, width, dropout), Gpt.Mlp(width)
            self.drop = nn.Dropout(dropout)

        def forward(self, x):
            x = x + self.drop(self.attn(self.ln_1(x)))
            return x + self.drop(self.mlp(self.ln_2(x)))

    def __init__(self, layers, heads, width, block, dropout=0, vocabulary=65):
        super().__init__()
        self.wte, self.wpe, self.drop = nn.Embedding(vocabulary, width), nn.Embedding(block, width), nn.Dropout(dropout)
        self.h = nn.ModuleList(Gpt.Layer(heads, width, dropout) for _ in range(layers))
        self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, x):
        y = self.drop(self.wte(x.t()) + self.wpe.weight[:len(x)])
        for layer in self.h:
            y = layer(y)
        return self.lm_head(self.ln_f(y)).transpose(0, 1).flatten(0, 1)


MODELS = {
    'lenet': (LeNet, (1, 28, 28)),
    'hdc': (lambda: Hdc(4), (1, 28, 28)),
    'hdc-2.5mb': (lambda: Hdc(2), (1, 28, 28)),
    'alexnet-32': (alexnet_32, (3, 32, 32)),
    'vgg16-32': (vgg16_32, (3, 32, 32)),
    **{f'resnet{6 * n + 2}': (lambda n=n: CifarResNet(n), (3, 32, 32)) for n in (3, 5, 7, 9)},
    'alexnet': (lambda: torchvision_model('alexnet', alexnet), (3, 224, 224)),
    'alexnet-original': (lambda: alexnet_2012(2, 2, True), (3, 224, 224)),
    'alexnet-ungrouped': (lambda: alexnet_2012(1, 0, False), (3, 227, 227)),
    'vgg16': (lambda: torchvision_model('vgg16', vgg16), (3, 224, 224)),
    'vgg16_bn': (lambda: torchvision_model('vgg16_bn', lambda: vgg16(True)), (3, 224, 224)),
    **{f'resnet{n}': (lambda n=n: torchvision_model(f'resnet{n}'), (3, 224, 224)) for n in (18, 34, 50, 101)},
    'googlenet': (GoogLeNet, (3, 224, 224)),
    'googlenet-torchvision': (lambda: torchvision_model('googlenet', aux_logits=False, init_weights=False), (3, 224, 224)),
}

LANGUAGE_MODELS = {  # name: model, vocabulary, words per step, norm that the gradient is clipped to
    'lstm-small': (lambda: LanguageModel(200, 0, False), 10000, 20, 0.25),
    'lstm-medium': (lambda: LanguageModel(650, 0.5, False), 10000, 35, 0.143),
    'lstm-large': (lambda: LanguageModel(1500, 0.65, False), 10000, 35, 0.286),
    'lstm-650': (lambda: LanguageModel(650, 0.5, True), 10000, 35, 0.25),
    'lstm-1500': (lambda: LanguageModel(1500, 0.65, True), 10000, 35, 0.25),
    'gpt-4x128': (lambda: Gpt(4, 4, 128, 64), 65, 64, 1),
    'gpt-6x384': (lambda: Gpt(6, 6, 384, 256, 0.2), 65, 256, 1),
    'gpt2': (lambda: Gpt(12, 12, 768, 1024, 0.1, 50257), 50257, 1024, 1),
}


def sgd(model, **rule):
    """SGD in one pass over its tensors, where this PyTorch has that for them (on CPUs since 2.4); else as it comes."""
    try:
        return torch.optim.SGD(model.parameters(), fused=True, **rule)
    except (RuntimeError, TypeError):
        return torch.optim.SGD(model.parameters(), **rule)


def fail(sentence):
    print(json.dumps({'error': sentence}), flush=True)
    sys.exit(1)


def main():
    name, batch, threads, device, precision, layout = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:7]
    gpu, clip_norm = device != 'cpu', 0
    torch.set_num_threads(threads)
    if gpu:
        if not torch.cuda.is_available():
            fail(f'the PyTorch of {sys.executable} finds no GPU (--against torch): install one that is built with CUDA, or '
                 'leave it out')
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == 'tf32'
        torch.backends.cudnn.benchmark = True  # its best algorithms; ours are the heuristics', and deterministic
    torch.manual_seed(0)
    if name in LANGUAGE_MODELS:
        make, vocabulary, words, clip_norm = LANGUAGE_MODELS[name]
        model, x, y = make(), *(torch.randint(0, vocabulary, size) for size in [(words, batch), (words * batch,)])
    else:
        make, image = MODELS[name]
        try:
            model = make()
        except ImportError as e:
            fail(str(e))
        x, y = torch.randn(batch, *image), torch.randint(0, 10, (batch,))
    if layout == 'channels_last':
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    model, x, y = model.to(device), x.to(device), y.to(device)
    adamw = isinstance(model, Gpt)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True) if adamw else \
        sgd(model, lr=1e-3, momentum=0 if clip_norm else 0.9)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast('cuda', torch.bfloat16) if precision == 'bf16' else contextlib.nullcontext():
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        if clip_norm:
            nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        optimizer.step()
        if not gpu:
            loss.item()

    if layout == 'compiled':  # by torch.compile, which chooses layouts itself; the first step compiles
        try:
            model = torch.compile(model)
            step()
        except Exception as e:  # PyTorch before 2.0 has no torch.compile, and there may be no C++ compiler
            fail(f'torch.compile of PyTorch {torch.__version__} failed (--compile): {(str(e) or repr(e)).splitlines()[0]}')
    print(json.dumps({'ready': True, 'version': torch.__version__,
                      'parameters': sum(p.numel() for p in model.parameters())}), flush=True)
    for line in sys.stdin:
        steps = int(line.split()[1])
        start = time.perf_counter()
        for _ in range(steps):
            step()
        if gpu:
            torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        memory = torch.cuda.memory_reserved() if gpu else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({'seconds': seconds, 'memory_bytes': memory}), flush=True)


if __name__ == '__main__':
    main()
