"""Writes unicode_ranges.inc: which code points are letters (general category L) and numbers (N).

    python3 -m venv venv && venv/bin/pip install unicodedata2==16.0.0
    venv/bin/python data/unicode_ranges.py > data/unicode_ranges.inc

Each array is "so many that are not, so many that are", again and again from U+0080 on: all that a range needs in 16 bits.
"""
import sys
import textwrap

import unicodedata2 as unicodedata


def runs(category):
    inside, length, lengths = False, 0, []
    for code in range(0x80, sys.maxunicode + 1):
        if (unicodedata.category(chr(code))[0] == category) != inside:
            lengths.append(length)
            inside, length = not inside, 0
        length += 1
    assert len(lengths) % 2 == 0 and max(lengths) < 65536
    return lengths


print(f'// Unicode {unicodedata.unidata_version}. Written by unicode_ranges.py.')
for name, category in ('kLetterRuns', 'L'), ('kNumberRuns', 'N'):
    lengths = runs(category)
    print(f'constexpr std::uint16_t {name}[] = {{')
    print(textwrap.fill(', '.join(map(str, lengths)) + '};', 120, initial_indent='    ', subsequent_indent='    '))
