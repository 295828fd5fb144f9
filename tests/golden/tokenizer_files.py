"""Writes tokenizer_files.json: small tokenizers as `tokenizers` and `tiktoken` save them, and what they make of texts.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3 tiktoken==0.14.0
    venv/bin/python tests/golden/tokenizer_files.py

Those under "read" cut texts by GPT-2's pattern; those under "refused" by another one.
"""
import base64
import json
import pathlib
import tempfile

import tiktoken
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, trainers

FOLDER = pathlib.Path(__file__).parent
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace('{1,3}', '')
TRAIN = (
    "The cat sat on the mat; the other cats sat there, and that's that;\n"
    "They're sure they've seen it: I'm here, we'll see, he'd say (he can't), it's 12 o'clock, 1234 or 12,345.\n\n"
    "aaaa aaa aa a aaaaa, bababa ababab banana bandana  anna   annanna\n"
    "Größe, größer; déjà vu; Ελληνικά, русские; 日本語の文字。\n"
) * 3
TEXTS = [
    "",
    " the cats' mother can't say: \"it's 12,345 bananas!\"\n\n\tthe   end  ",
    "aaaaaaaaaaaaaa bababababab annannanna théâtre 日本 Größe",
    "the<|endoftext|>the <|endoftext|> \n<|endoftext|>",
    "a <|pad|> b<|pad|><|pad|>er  <|pad|>",
]


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), 'isolated'),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def trained(pre_tokenizer, model=None, special=()):
    tokenizer = Tokenizer(model or models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    suffix = {'end_of_word_suffix': '</w>'} if model else {}
    tokenizer.train_from_iterator([TRAIN], trainers.BpeTrainer(
        vocab_size=310 if not model else 560, show_progress=False, special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **suffix))
    return tokenizer


def saved(tokenizer):
    """vocab.json and merges.txt."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.model.save(folder)
        return {name: (pathlib.Path(folder) / name).read_text() for name in ('vocab.json', 'merges.txt')}


def ranks_of(tokenizer):
    alphabet = {}  # each character's byte
    codes = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    rest = [b for b in range(256) if b not in codes]
    alphabet.update({chr(b): b for b in codes})
    alphabet.update({chr(256 + i): b for i, b in enumerate(rest)})
    return {bytes(alphabet[c] for c in token): n for token, n in tokenizer.get_vocab().items()}


def tiktoken_lines(ranks):
    by_number = sorted(ranks.items(), key=lambda pair: pair[1])
    return ''.join(f'{base64.b64encode(token).decode()} {n}\n' for token, n in by_number)


def cases(encode):
    return [{'text': text, 'tokens': encode(text)} for text in TEXTS]


gpt2 = trained(pre_tokenizers.ByteLevel(add_prefix_space=False), special=['<|endoftext|>'])
gpt2.add_tokens([AddedToken('<|pad|>', normalized=True), AddedToken('er  <|', normalized=True)])
whole = gpt2.to_str()
strings = json.loads(whole)
strings['model']['merges'] = [' '.join(merge) for merge in strings['model']['merges']]
plain = trained(pre_tokenizers.ByteLevel(add_prefix_space=False))
ranks = ranks_of(plain)
gap = {token: n + (n >= 300) for token, n in ranks.items()}  # <|endoftext|> between, as in p50k_base
steps = trained(split(GPT2))
read = [{'files': {'tokenizer.json': text}, 'cases': cases(lambda t: tokenizer.encode(t).ids)}
        for tokenizer, text in ((gpt2, whole), (gpt2, json.dumps(strings)), (steps, steps.to_str()))]
two = saved(plain)
for names in ('vocab.json', 'merges.txt'), ('encoder.json', 'vocab.bpe'):
    read.append({'files': dict(zip(names, two.values())), 'cases': cases(lambda t: plain.encode(t).ids)})
for ranks_ in ranks, gap:
    encoding = tiktoken.Encoding('small', pat_str=GPT2, mergeable_ranks=ranks_, special_tokens={})
    read.append({'files': {'small.tiktoken': tiktoken_lines(ranks_)}, 'cases': cases(encoding.encode_ordinary)})

clip = trained(split(r"'s|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"), models.BPE(end_of_word_suffix='</w>'))


def untrained(pre_tokenizer, model=None):
    tokenizer = Tokenizer(model or models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    return {'tokenizer.json': tokenizer.to_str()}


plain_steps = pre_tokenizers.ByteLevel(add_prefix_space=False)
across = 'goes across words of GPT-2\'s pattern'
refused = [{'files': files, 'said': said} for files, said in (
    (untrained(split(LLAMA3)), 'another pattern, Llama 3\'s'),
    (untrained(split(QWEN)), 'another pattern, Qwen\'s'),
    (untrained(split(r'\w+|\W')), r'another pattern, \w+|\W,'),
    (untrained(plain_steps, models.BPE(end_of_word_suffix='</w>')), 'end_of_word_suffix "</w>", as CLIP'),
    (untrained(plain_steps, models.WordPiece(unk_token='[UNK]')), 'its model is WordPiece'),
    (untrained(pre_tokenizers.ByteLevel(add_prefix_space=True)), 'add_prefix_space'),
    (untrained(pre_tokenizers.Sequence([pre_tokenizers.Digits(), plain_steps])), 'its pre_tokenizer is Digits'),
    (untrained(pre_tokenizers.Metaspace()), 'its pre_tokenizer is Metaspace'),
    (saved(clip), '</w> behind a word\'s end'),
    (saved(trained(split(QWEN))), across),
    ({'l.tiktoken': tiktoken_lines(ranks_of(trained(split(LLAMA3))))}, across))]
with open(FOLDER / 'tokenizer_files.json', 'w', encoding='utf8') as out:
    json.dump({'read': read, 'refused': refused}, out, ensure_ascii=False, separators=(',', ':'))
    out.write('\n')
