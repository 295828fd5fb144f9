#!/usr/bin/env python3
"""The labs of docs/labs: labs.py BUILD/apps

Each stub compiles, and its checks say in the right words what is missing. Each solution passes the same checks, and
trains: the first three to the weights of the library's allreduce, bit for bit.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

# What the first check of a stub that fails says.
NOT_YET = {
    1: 'with 2 workers and 12 numbers, number 0 on rank 0 is 1, and should be 3',
    2: 'a step takes [0-9.]+ ms of virtual time. With all buckets but the last hidden it takes 230.0 ms: '
       r'send a bucket in gradient_ready\(\), with its last gradient',
    3: 'a step takes [0-9.]+ ms of virtual time, and [0-9.]+ ms where each parameter waits for its own bucket: '
       r'wait in before_forward\(\), and not in end_step\(\)',
    4: r'in two steps with the gradient \(1, 0, 0.6\) and k = 1 element 0 was sent in the second, and not element 2, '
       'of which 1.2 had come together',
    5: 'when forward reads it in step 5, layer 1 on rank [0-3] is [-0-9.]+, and should be -10',
}
# A line of a check: it holds, or it does not, and one sentence says why.
LINE = r'ok       .+|not yet  [^:]+: .+'
TRAIN = ['train', '--data', 'synthetic:400,50', '--steps', '6', '--threads', '1', '--quiet', '--workers', '3']


def output_of(program, *words):
    done = subprocess.run([f'{labs}/{program}', *map(str, words)], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


def require(holds, what):
    if not holds:
        sys.exit(what)


def weights(folder, *words):
    code, out, err = output_of('lab-solved', *words, *TRAIN, '--save', folder)
    require(code == 0, f'lab-solved {words}: {out}{err}')
    return (pathlib.Path(folder) / 'weights.safetensors').read_bytes()


labs = sys.argv[1] + '/examples/labs'
for lab, words in NOT_YET.items():
    code, out, err = output_of('lab', lab)
    lines = out.splitlines()
    require(code == 1 and not err, f'stub {lab} ends with {code}: {out}{err}')
    require(all(re.fullmatch(LINE, line) for line in lines[:-1]), f'stub {lab}: {out}')
    require(lines[-1].endswith(f'checks hold. The place to fill in is in lab{lab}.cc.'), f'stub {lab}: {out}')
    first = next(line for line in lines if line.startswith('not yet'))
    require(re.search(words + '$', first), f'stub {lab} says: {first}')

    code, out, err = output_of('lab-solved', lab)
    require(code == 0 and 'not yet' not in out and f'Lab {lab} is done.' in out, f'solution {lab}: {out}{err}')
    require(re.search(r' [0-9.]+ ms +[0-9.]+ ms$', out.splitlines()[-1]), f'solution {lab} has no costs: {out}')

with tempfile.TemporaryDirectory() as folder:
    code, out, err = output_of('lab-solved', 1, *TRAIN, '--allreduce', 'ring', '--save', f'{folder}/ring')
    require(code == 0, out + err)
    dense = (pathlib.Path(folder) / 'ring/weights.safetensors').read_bytes()
    for lab in 1, 2, 3:
        require(weights(f'{folder}/{lab}', lab) == dense, f'lab {lab} trains to other weights than the library')
    for lab, option in (4, ('--density', '0.1')), (5, ('--every', '3')):
        code, out, err = output_of('lab-solved', lab, *TRAIN, *option)
        require(code == 0, f'lab {lab}: {out}{err}')

for words in [], ['6'], ['1', 'run'], ['12']:
    code, out, err = output_of('lab', *words)
    require(code == 2 and err.startswith('usage: lab N'), f'lab {words}: {code} {out}{err}')
print('5 stubs and 5 solutions')
