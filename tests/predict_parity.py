#!/usr/bin/env python3
"""Do weights of torchvision name pictures here as they do there?

    predict_parity.py APPS [--model NAME]... [--pictures FILE ...]

APPS is the folder of our programs (build/apps). For each model torchvision makes random weights, saves them as its published ones
are, the script of docs/models.md converts the file, and `imagenet --predict` names the pictures by it: the five most likely classes
and their probabilities are to be PyTorch's within 1e-4. Without --pictures those of tests/golden/images are taken; JPEG needs a build
with libjpeg-turbo to be the same to the bit. Exit code 77 (skipped) if no Python with torch, torchvision and safetensors is found: of
LACONIC_PYTHON, else python3, else /usr/bin/python3.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
LIMIT = 1e-4


def find_torchvision():
    """Starts this script again in a Python that has torchvision, with OpenBLAS as it is by default."""
    if os.environ.get('LACONIC_PARITY') == '1':
        return
    own = os.environ.get('LACONIC_PYTHON')
    for python in [own] if own else ['python3', '/usr/bin/python3']:
        try:
            found = subprocess.run([python, '-c', 'import torch, torchvision, PIL, safetensors'], stderr=subprocess.DEVNULL).returncode == 0
        except OSError:
            found = False
        if found:
            environment = {k: v for k, v in os.environ.items() if not k.startswith(('OPENBLAS_', 'OMP_'))}
            environment.update(LACONIC_PARITY='1')
            os.execvpe(python, [python, *sys.argv], environment)
    print('skipped: no Python that can import torch, torchvision and safetensors was found (install them, or name a Python in LACONIC_PYTHON)')
    sys.exit(77)


find_torchvision()
import PIL.Image  # noqa: E402
import torch  # noqa: E402
import torchvision  # noqa: E402

# As torchvision publishes them: its GoogLeNet has heads, and takes pixels of another scale than it is given.
MODELS = {
    'alexnet': (lambda: torchvision.models.alexnet(), []),
    'vgg16': (lambda: torchvision.models.vgg16(), []),
    'resnet50': (lambda: torchvision.models.resnet50(), []),
    'googlenet-torchvision': (lambda: torchvision.models.googlenet(transform_input=True, init_weights=False), ['--auxiliary-heads']),
}


def converter():
    """The script that docs/models.md gives."""
    text = (HERE.parent / 'docs' / 'models.md').read_text()
    begin = text.index('```python\n') + len('```python\n')
    return text[begin:text.index('```', begin)]


def make_decided(model, x):
    """Random weights say nearly the same of everything: normalises by these pictures, and spreads the logits."""
    for m in model.modules():
        if isinstance(m, torch.nn.BatchNorm2d):
            m.momentum = 1.0
    with torch.no_grad():
        if any(isinstance(m, torch.nn.BatchNorm2d) for m in model.modules()):
            model.train()(x)
        logits = model.eval()(x)
        last = [m for m in model.modules() if isinstance(m, torch.nn.Linear) and m.out_features == logits.shape[1]][-1]
        last.weight *= 3 / logits.std()
        last.bias *= 3 / logits.std()
        return torch.softmax(model(x), 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('apps', type=pathlib.Path)
    parser.add_argument('--model', action='append', choices=list(MODELS))
    images = HERE / 'golden' / 'images'
    parser.add_argument('--pictures', nargs='+', default=[str(images / name) for name in ('photo.png', 'whole.png', 'grey.png')])
    options = parser.parse_args()
    see = torchvision.transforms.Compose([
        torchvision.transforms.Resize(256), torchvision.transforms.CenterCrop(224), torchvision.transforms.ToTensor(),
        torchvision.transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
    x = torch.stack([see(PIL.Image.open(p).convert('RGB')) for p in options.pictures])
    failures = 0
    print(f'{"model":<22} {"classes":>8} {"most likely":>12} {"largest difference of a probability":>36}')
    for name in options.model or MODELS:
        make, flags = MODELS[name]
        torch.manual_seed(1)
        model = make()
        expected = make_decided(model, x)
        with tempfile.TemporaryDirectory() as folder:
            torch.save(model.state_dict(), folder + '/weights.pth')
            subprocess.run([sys.executable, '-c', converter(), folder + '/weights.pth', folder + '/weights.safetensors'], check=True)
            os.remove(folder + '/weights.pth')
            said = subprocess.run([str(options.apps / 'imagenet'), '--model', name, *flags, '--init', folder + '/weights.safetensors',
                                   '--data', 'nowhere', '--threads', '1', '--json', '--predict', *options.pictures], check=True,
                                  stdout=subprocess.PIPE).stdout
        predictions = json.loads(said.splitlines()[-1])['predictions']
        assert len(predictions) == len(options.pictures)
        difference, wrong = 0.0, 0
        for prediction, probabilities in zip(predictions, expected):
            likely, (values, classes) = prediction['likely'], probabilities.topk(5)
            assert len(likely) == 5
            # Two classes whose probabilities are equal within rounding may change places.
            for ours, value, its in zip(likely, values.tolist(), classes.tolist()):
                wrong += ours['class'] != its and abs(float(probabilities[ours['class']]) - value) > 1e-6
                difference = max(difference, abs(ours['probability'] - float(probabilities[ours['class']])))
        print(f'{name:<22} {"other" if wrong else "the same":>8} {float(expected.max()):>12.3f} {difference:>36.1e}', flush=True)
        failures += wrong > 0 or not difference <= LIMIT
    if failures:
        sys.exit(f'{failures} of the models name pictures otherwise than PyTorch does')


if __name__ == '__main__':
    main()
