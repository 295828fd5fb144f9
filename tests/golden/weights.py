#!/usr/bin/env python3
"""Weights of one small GPT-2 as the programs that people have write them (weights/), and the loss that PyTorch computes in
float32 with what each file holds (weights/losses.json): for tests/foreign_weights_test.cc.

    DEVICE=CPU python3 tests/golden/weights.py      (made with torch 2.15.0, transformers 5.24.0, safetensors 0.8.0,
                                                     mlx 0.32.4, tinygrad 0.14.0, numpy 2.4.6; the result is checked in)
"""
import json
import pathlib
import shutil

import mlx.core
import numpy
import tinygrad
import torch
from safetensors.torch import load_file, save_file, save_model
from tinygrad.nn.state import safe_save
from transformers import GPT2Config, GPT2LMHeadModel

BLOCK, VOCABULARY, HEADS = 5, 11, 2
here = pathlib.Path(__file__).parent / 'weights'
shutil.rmtree(here, ignore_errors=True)
here.mkdir()
text = ''.join('abcdefghij\n'[(i * i + i // 7) % VOCABULARY] for i in range(400))
(here / 'text.txt').write_text(text)
numbers = {c: i for i, c in enumerate(sorted(set(text)))}
valid = torch.tensor([numbers[c] for c in text[360:]])


def model_of(**options):
    return GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_positions=BLOCK, n_embd=8, n_layer=2, n_head=HEADS,
                                      bos_token_id=None, eos_token_id=None, **options)).eval()


def loss(model):
    """Of all tokens of valid but the first, read in blocks that lie one behind the other."""
    total = 0.0
    with torch.no_grad():
        for at in range(0, len(valid) - 1, BLOCK):
            x, y = valid[at:at + BLOCK][:len(valid) - 1 - at], valid[at + 1:at + 1 + BLOCK]
            total += torch.nn.functional.cross_entropy(model(x[None]).logits[0], y, reduction='sum').item()
    return total / (len(valid) - 1)


def loss_of(weights):
    """weights: names of transformers, of any float type"""
    model = model_of()
    missing, unexpected = model.load_state_dict({k: v.float() for k, v in weights.items()}, strict=False)
    assert missing in ([], ['lm_head.weight']) and not unexpected, (missing, unexpected)
    return loss(model)


torch.manual_seed(11)
model = model_of()
with torch.no_grad():
    for parameter in model.parameters():  # larger than GPT-2 begins with, so that every part counts
        parameter.add_(0.4 * torch.randn_like(parameter))
own = {k: v.clone() for k, v in model.state_dict().items() if k != 'lm_head.weight'}
wte = own['transformer.wte.weight']
losses = {}


def keep(name, weights=own):
    losses[name] = loss_of(weights)


model.save_pretrained(here / 'transformers')
keep('transformers')
save_model(model, here / 'save_model.safetensors')  # the embedding is an alias in __metadata__
keep('save_model.safetensors')
halves = model_of()
halves.load_state_dict(model.state_dict())
halves.to(torch.bfloat16).save_pretrained(here / 'sharded', max_shard_size='3KB')
keep('sharded', {k: v.bfloat16() for k, v in own.items()})
for name, dtype in (('f16', torch.float16), ('bf16', torch.bfloat16), ('f64', torch.float64),
                    ('f8_e4m3', torch.float8_e4m3fn), ('f8_e5m2', torch.float8_e5m2)):
    cast = {k: v.to(dtype) for k, v in own.items()}
    save_file(cast, here / f'{name}.safetensors')
    keep(f'{name}.safetensors', cast)


def out_in(weights):
    """nanoGPT's linear layers"""
    return {k: v.t().contiguous() if '.c_' in k and k.endswith('weight') else v for k, v in weights.items()}


# nanoGPT's state_dict under torch.compile and DDP, with the output's weight beside the equal embedding's
save_file({'_orig_mod.module.' + k: v for k, v in {**out_in(own), 'lm_head.weight': wte.clone()}.items()},
          here / 'nanogpt.safetensors')
keep('nanogpt.safetensors')
without = {k: torch.zeros_like(v) if k.endswith('.bias') else v for k, v in own.items()}
save_file({k: v for k, v in out_in(without).items() if not k.endswith('.bias')}, here / 'nanogpt-no-bias.safetensors')
keep('nanogpt-no-bias.safetensors', without)
# GPT-2's first files: no "transformer.", masks of several types beside the weights, and what no GPT has a place for
masks = {f'h.{i}.attn.bias': torch.ones(1, 1, BLOCK, BLOCK).tril().to(t) for i, t in enumerate((torch.bool, torch.uint8))}
save_file({**{k.removeprefix('transformer.'): v for k, v in own.items()}, **masks,
           'h.0.attn.masked_bias': torch.tensor(-1e4), 'position_ids': torch.arange(BLOCK, dtype=torch.int16),
           'score.weight': torch.full((2, 8), 1e300, dtype=torch.float64)}, here / 'masks.safetensors')
keep('masks.safetensors')
mlx.core.save_safetensors(str(here / 'mlx.safetensors'),
                          {k: mlx.core.array(v.numpy()).astype(mlx.core.bfloat16) for k, v in own.items()})
keep('mlx.safetensors', {k: v.bfloat16() for k, v in own.items()})
padded = torch.cat([wte, torch.randn(64 - VOCABULARY, 8)])
safe_save({k: tinygrad.Tensor((padded if v is wte else v).numpy()) for k, v in own.items()},
          str(here / 'tinygrad-padded.safetensors'))
keep('tinygrad-padded.safetensors')
# Those that must be refused.
save_file({**own, 'lm_head.weight': torch.zeros_like(wte)}, here / 'refused-untied.safetensors')
torch.save({'model': own}, here / 'refused.pth')
numpy.savez(here / 'refused.npz', **{k: v.numpy() for k, v in own.items()})
(here / 'losses.json').write_text(json.dumps(losses, indent=1) + '\n')
for folder in ('transformers', 'sharded'):
    (here / folder / 'generation_config.json').unlink()
for file in here.rglob('*.*'):
    file.chmod(0o755 if file.is_dir() else 0o644)
