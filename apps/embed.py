"""Writes a text file as a C++ header that defines it as a string: embed.py INPUT OUTPUT NAME"""
import sys

source, target, name = sys.argv[1:]
text = open(source, encoding='utf-8').read()
lines = ['#pragma once', f'inline constexpr char {name}[] =']
lines += ['    R"laconic(' + line + '\n)laconic"' for line in text.split('\n')]
open(target, 'w', encoding='utf-8').write('\n'.join(lines) + ';\n')
