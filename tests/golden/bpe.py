"""Writes bpe.json: a small vocabulary that Hugging Face's `tokenizers` trains, and what it makes of some texts.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3 && venv/bin/python tests/golden/bpe.py

Numbers of tokens, merges in their order, and the pieces that GPT-2's pattern cuts a text into.
"""
import json
import pathlib

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

FOLDER = pathlib.Path(__file__).parent
TRAIN = (
    "The cat sat on the mat; the other cats sat there, and that's that.\n"
    "They're sure they've seen it: I'm here, we'll see, he'd say he can't, it's 12 o'clock, 1234 or 12,345.\n\n"
    "aaaa aaa aa a aaaaa, bababa ababab banana bandana  anna   annanna\n"
    "\tthe the the\tother  mother\r\nbrother   \n"
    "Größe, größer, größte; déjà vu, cafés; Ελληνικά γράμματα, и русские буквы; 日本語の文字、日本の文.\n"
) * 2
TEXTS = [
    "",
    " ",
    "the",
    " the cats' mother can't say: \"it's 12,345 bananas!\"",
    "'s 't 're 've 'm 'll 'd 'S 'x don't''s !'s",
    "a  b   c\n\n d\t\te \n",
    "trailing   ",
    "\n\n\n",
    "x\u00a0y\u2003z\u3000 w\u0085v\u200bu\ufeff",
    "Größe ΕΛΛΗΝΙΚΑ Жук 漢字かな한국어 हिन्दी العربية עברית",
    "٣٤ ½²³ Ⅷ x² 七 ൩ a1b2",
    "naïve e\u0301te\u0301 \u0301x ª º µ",
    "😀😀 👩\u200d👩\u200d👧 €5 ©®™ … — “q”",
    "aaaaaaaaaaaaaaaaaaaaaaaaaa bababababababab annannannanna",
    "\u0000\u0001\u001c\u001d\u007f \u007fx",
    "a\u1c89\ua7da \U00010d4ab 7\U00010d40 \U00031350\U0002ebf0c 1\U0001ccf0\U00016d70",  # of Unicode 15 and 16
]

tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
trainer = trainers.BpeTrainer(vocab_size=380, min_frequency=2, show_progress=False,
                              initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
tokenizer.train_from_iterator([TRAIN], trainer)
model = json.loads(tokenizer.to_str())['model']

cases = []
for text in TEXTS:
    pieces = [text[a:b] for _, (a, b) in tokenizer.pre_tokenizer.pre_tokenize_str(text)]
    cases.append({'text': text, 'words': pieces, 'tokens': tokenizer.encode(text).ids})
with open(FOLDER / 'bpe.json', 'w') as out:
    json.dump({'train': TRAIN, 'size': 380, 'vocabulary': model['vocab'],
               'merges': [m if isinstance(m, str) else ' '.join(m) for m in model['merges']], 'cases': cases}, out,
              separators=(',', ':'))
    out.write('\n')
