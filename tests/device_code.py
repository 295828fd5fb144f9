#!/usr/bin/env python3
"""What nvcc makes of the kernels that take most of a training's time, without a GPU.

    device_code.py NVCC SOURCE UNIT...

SOURCE is the folder of the sources, a UNIT a .cu file. In PTX, before the last compiler, such a kernel has loads or stores of 16 bytes (both where
it writes as much as it reads) and no division of 64-bit integers, which a GPU does in some hundred instructions. A grid-stride loop may have
one before it begins: of the threads' share, once. Exit code 0 if all are so, 1 with a line for each that is not.
"""
import re
import subprocess
import sys
import tempfile

# Names as c++filt gives them, without namespaces; what moves 16 bytes at once, a load or a store ('one') or both; divisions of 64 bits that
# are allowed (None: any number).
HOT = [
    (r'each_kernel<[48], (?!increment)', 'one', 0),                # element by element: additions, activations, updates
    (r'walk_columns_kernel<[48], (Apply|Data)', 'both', 0),        # batch norm
    (r'column_sums_kernel<[48], (Statistics|Sums|Columns)', 'one', 0),                         # likewise, and bias
    (r'for_pixels<[48], Max(Forward|Backward)<', 'both', 0),
    (r'for_pixels<[48], Average(Forward|Backward)<', 'both', None),  # windows of adaptive pools are shares
    (r'add_bias_kernel<unsigned', None, 0),
    (r'tile_kernel<.*, true>\(', 'one', 0),                        # RedSync's residual pass
    (r'(count|emit|digits|gather|choose|thresholds|scan|bisect)_kernel', None, 0),             # selection
    (r'\b(sizes|write|ways|decode)_kernel', 'one', 0),             # INCEPTIONN
    (r'(to|from)_16_bits', None, 1),
    (r'(to|from)_stochastic', None, 1),
]
LEAST = 100  # kernels that must be found: else the names above are out of date


def kernels(ptx):
    """Yields name and text of each kernel."""
    starts = [(m.start(), m.group(1)) for m in re.finditer(r'^\.(?:visible |weak )?\.?entry (\w+)', ptx, re.M)]
    for (begin, name), end in zip(starts, [start for start, _ in starts[1:]] + [len(ptx)]):
        yield name, ptx[begin:end]


def main():
    nvcc, source, *units = sys.argv[1:]
    wrong, found, seen = [], 0, set()
    for unit in units:
        with tempfile.NamedTemporaryFile(suffix='.ptx') as ptx:
            subprocess.run([nvcc, '-ptx', '-std=c++20', '-O3', '--extended-lambda', '--expt-relaxed-constexpr', '-DLACONIC_CUDA',
                            f'-I{source}', '-arch=compute_75', unit, '-o', ptx.name], check=True)
            all_kernels = list(kernels(open(ptx.name).read()))
        names = subprocess.run(['c++filt'], input='\n'.join(name for name, _ in all_kernels), capture_output=True, text=True,
                               check=True).stdout.split('\n')
        for name, (_, text) in zip(names, all_kernels):
            name = re.sub(r'laconic::|compress::|cuda::|cpu::|detail::|\(anonymous namespace\)::|^void ', '', name)
            for pattern, wide, allowed in HOT:
                if not re.search(pattern, name):
                    continue
                found += 1
                seen.add(pattern)
                divisions = len(re.findall(r'\b(?:div|rem)\.[us]64', text))
                if allowed is not None and divisions > allowed:
                    wrong.append(f'{divisions} divisions of 64-bit integers, {allowed} allowed: {name}')
                moves = set(re.findall(r'\b(ld|st)\.global(?:\.\w+)*\.(?:v4\.[bfsu]32|v2\.[bfsu]64)', text))
                if wide and not moves or wide == 'both' and len(moves) < 2:
                    wrong.append(f'16 bytes are moved at once by {" and ".join(moves) or "nothing"} alone: {name}')
                break
    wrong += [f'no kernel is called {pattern}' for pattern, _, _ in HOT if pattern not in seen]
    if found < LEAST:
        wrong.append(f'{found} kernels found, at least {LEAST} expected')
    print('\n'.join(line[:200] for line in wrong) or f'{found} kernels are as they should be')
    sys.exit(bool(wrong))


if __name__ == '__main__':
    main()
