#!/usr/bin/env python3
"""A small GPT-2 with random weights as Hugging Face's transformers saves it (gpt2.safetensors), and what it makes of two
texts (gpt2_logits.safetensors): for tests/gpt_test.cc. Needs torch, transformers and safetensors."""
import pathlib
import shutil
import tempfile

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

here = pathlib.Path(__file__).parent
torch.manual_seed(7)
model = GPT2LMHeadModel(GPT2Config(vocab_size=19, n_positions=7, n_embd=12, n_layer=2, n_head=3)).eval()
with torch.no_grad():
    for parameter in model.parameters():  # larger than GPT-2 begins with, so that every part counts
        parameter.add_(0.3 * torch.randn_like(parameter))
    tokens = torch.randint(0, 19, (2, 7))
    logits = model(tokens).logits
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    shutil.copy(pathlib.Path(folder) / 'model.safetensors', here / 'gpt2.safetensors')
save_file({'tokens': tokens, 'logits': logits}, here / 'gpt2_logits.safetensors')
