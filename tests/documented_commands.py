#!/usr/bin/env python3
"""Every command in the README and in docs/ is one that its program takes:

    documented_commands.py BUILD/apps

Commands are the lines of code blocks that begin with one of our programs or scripts, and what stands in a loop, `for x
in A B; do COMMAND; done`, with each of its words. A training program is run with --dry-run on synthetic data, the
smallest model and two workers, and `lab N train` likewise; `laconic launch`, `compare` and the scripts of tests/netns with --dry-run, and what they would
run is checked alike. Another tool must name each option in its --help, a script in its text.

Not tried:
  READERS_OWN       options that need files, machines or devices of the reader's: --help must name them
  values of tools   models, bench, inspect, pack, simulate, calibrate, doctor, explain,
                    report have no --dry-run
  `...` and `…`     commands that are cut short
  APP, [options]    what a command looks like, and not one
  bash SCRIPT       what those in docs/tables run is tried as if it stood in a document; with variables, its options' names
  other programs    ssh, tar, meson and their like
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[1]
# The smallest model of each program: a model's name is tried once, and options with this one.
TRAINING = {'mnist': 'lenet', 'cifar10': 'resnet20', 'imagenet': 'resnet18', 'ptb': 'lstm-small', 'gpt': 'gpt-4x128'}
# Data that is made up in no time.
DATA = {'mnist': 'synthetic:1100,100', 'cifar10': 'synthetic:1100,100', 'imagenet': 'synthetic:200,20,10', 'ptb': 'synthetic:20000,300',
        'gpt': 'synthetic:20000,300'}
# Options that name what a reader has and this test does not, or go with those; and whether a value follows.
READERS_OWN = {'--init': True, '--predict': True, '--resume': False, '--device': True, '--precision': True, '--save': True, '--overwrite': False, '--save-every': True, '--keep': True,
               '--tokens': True, '--export': True, '--trace': True, '--trace-steps': True, '--dump-gradients': True, '--log': True, '--config': True,
               '--new-head': False, '--eval-only': False}
# Tools, and whether another word says which of them it is.
TOOLS = {'compare': False, 'launch': False, 'models': False, 'pack': False, 'simulate': False, 'calibrate': False, 'doctor': False, 'explain': False,
         'report': False, 'bench': True, 'inspect': True}
# How many words follow an option of launch.
OF_LAUNCH = {'-n': 1, '-np': 1, '--workers': 1, '--hosts': 1, '--hostfile': 1, '--mca': 2, '--restarts': 1, '--min-workers': 1, '--dry-run': 0}
SET_BY_SLURM = {'$SLURM_NTASKS': '8'}

checked, failures, helps = set(), [], {}


def lines_of(path):
    """Of its code blocks, with what a backslash continues, and without comments."""
    fenced, before = False, ''
    for line in path.read_text().splitlines():
        if line.lstrip().startswith('```'):
            fenced = not fenced
            continue
        if not fenced and not line.startswith('    '):
            before = ''
            continue
        line = before + line.strip()
        before = ''
        if line.endswith('\\'):
            before = line[:-1] + ' '
        else:
            yield from commands_in(line)


def commands_in(line):
    """The line, or if it is a loop what it does with each of the words."""
    loop = re.fullmatch(r'for (\w+) in (.*?); do (.*?); done', line)
    if not loop:
        return [line.removeprefix('Again: ')]
    name, values, body = loop.groups()
    return [body.replace('$' + name, value) for value in values.split()]


def words_of(line):
    try:
        words = shlex.split(line, comments=True)
    except ValueError:  # no shell line: a picture, a message
        return []
    while words and re.fullmatch(r'[A-Z_]+=\S*', words[0]):
        words.pop(0)
    return [SET_BY_SLURM.get(word, word) for word in words]


def name_of(word):
    return word.rsplit('/', 1)[-1]


def output_of(words):
    done = subprocess.run(words, cwd=SOURCE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return done.returncode, done.stdout, done.stderr


def fail(line, why):
    failures.append(f'{line}\n    {why.strip()}')


def help_of(tool, line):
    """The text of --help of a program, or of a tool."""
    if tuple(tool) not in helps:
        code, text, err = output_of([*tool, '--help'])
        if code:
            fail(line, f'{shlex.join(tool)} --help: {err or text}')
        helps[tuple(tool)] = text
    return helps[tuple(tool)]


def check_named(option, tool, text, line):
    if not re.search(r'(?<![a-z-])' + re.escape(option) + r'(?![a-z-])', text):
        fail(line, f'{shlex.join(tool)} has no option {option}')


def check_training(words, line):
    name, program = name_of(words[0]), [f'{apps}/{name_of(words[0])}']
    if name not in TRAINING:  # lab N train
        program = [f'{apps}/examples/labs/{name}', *words[1:3]]
        words = words[2:]
    if any('$' in word for word in words):  # of a script with arguments: there are names of options to try
        for option in (word.partition('=')[0] for word in words if word.startswith('--')):
            check_named(option, program, help_of(program, line), line)
        return
    data = ['--data', DATA.get(name, DATA['mnist'])]
    command = [*program, *data]
    rest, model = iter(words[1:]), None
    for word in rest:
        option, _, value = word.partition('=')
        if option in READERS_OWN:
            check_named(option, program, help_of(program, line), line)
            if READERS_OWN[option] and not value:
                next(rest, None)
        elif option == '--data':
            if not value:
                next(rest, None)
        elif option == '--model':
            model = value or next(rest, '')
        elif option == '--workers':  # two will do, and take less memory
            command += ['--workers', str(min(2, int(value or next(rest))))]
        elif option != '--seed':
            command.append(word)
        elif not value:
            next(rest, None)
    smallest = ['--model', TRAINING[name]] if name in TRAINING else []  # a lab has one model
    named = ['--model', model] if model else []
    if named != smallest:
        try_once([*program, *data, *named], line)
    try_once(command + smallest, line)


def try_once(command, line):
    if tuple(command) in checked:
        return
    checked.add(tuple(command))
    code, _, err = output_of([*command, '--dry-run'])
    if code:
        fail(line, f'{shlex.join(command)} --dry-run: {err}')


def check_options(words, line):
    """Of a tool that has no --dry-run: its --help names every option."""
    if words[0].endswith('.py'):
        tool, text = [words[0]], (SOURCE / words[0]).read_text()
    else:
        tool = [f'{apps}/laconic', *words[1:3 if TOOLS[words[1]] else 2]]
        text = help_of(tool, line)
    for word in words[1:]:
        if re.fullmatch(r'-[a-z]|--[a-z][a-z-]*(=.*)?', word):
            check_named(word.split('=')[0], tool, text, line)


def check_launch(words, line):
    """Its own options by its --dry-run, what follows as a command of its own."""
    at = 2
    while at < len(words) and words[at].startswith('-'):
        at += 1 + OF_LAUNCH.get(words[at], 0)
    own = [name_of(word) if name_of(word) in (*TRAINING, 'laconic') else 'true' for word in words[at:at + 1]]
    launch = [f'{apps}/laconic', 'launch', '--dry-run', *words[2:at], *own, *(['--save', 'x'] if '--restarts' in words else [])]
    code, out, err = output_of(launch)
    if code:
        fail(line, f'{shlex.join(launch)}: {err}')
    check(words[at:], line)


def check(words, line):
    if not words:
        return
    name = name_of(words[0])
    if name == 'netns.sh':
        if words[1] == 'run':
            check(words[4:], line)
    elif name in ('python3', 'python'):
        check(words[1:], line)
    elif name in TRAINING:
        check_training(words, line)
    elif name in ('lab', 'lab-solved'):  # without `train` tests/labs.py runs it
        if words[2:3] == ['train']:
            check_training(words, line)
        elif not re.fullmatch('[1-5]', ' '.join(words[1:])):
            fail(line, 'there is no such lab')
    elif name == 'laconic' and len(words) > 1 and words[1] == 'launch':
        check_launch(words, line)
    elif name in ('compare_ddp.py', 'compare_simulated.py') or (name == 'laconic' and len(words) > 1 and words[1] == 'compare'):
        if name == 'laconic':
            words = [f'{apps}/laconic', *words[1:]]
        else:
            words = [sys.executable, str(SOURCE / words[0]), apps, *words[2:]]
        code, out, err = output_of([*words, '--dry-run'])
        if code:
            fail(line, f'{shlex.join(words)} --dry-run: {err}')
        for made in out.splitlines():
            check(shlex.split(made), line)
    elif name == 'chaos':  # its own options stand before the program's
        at = next(i for i, word in enumerate(words) if word in TRAINING)
        for option in words[1:at]:
            if option.startswith('--'):
                check_named(option, [name], help_of([f'{apps}/../tests/chaos'], line), line)
        check(words[at:], line)
    elif name == 'laconic' and len(words) > 1 and words[1] in TOOLS:
        check_options(words, line)
    elif words[0].startswith('tests/') and name.endswith('.py') and name != 'make_data.py':
        check_options(words, line)


def main():
    global apps
    apps = str(pathlib.Path(sys.argv[1]).resolve())
    found = 0
    for path in [SOURCE / 'README.md', *sorted((SOURCE / 'docs').rglob('*.md')), *sorted((SOURCE / 'docs').rglob('*.sh'))]:
        for line in lines_of(path) if path.suffix != '.sh' else commands_of(path):
            words = words_of(line)
            if not words or '...' in words or '…' in line or not known(words):
                continue
            found += 1
            check(words, f'{path.relative_to(SOURCE)}: {line}')
    print(f'{found} commands, of which {len(checked)} different trainings were tried')
    for failure in failures:
        print(failure)
    if found < 50:
        sys.exit('hardly any command was found: is this still how they stand in the documents?')
    sys.exit(1 if failures else 0)


def commands_of(script):
    """What a script runs: it is run with a python3 that only says so. If it takes arguments, its lines are taken, but for
    papers.sh, which hands --dry-run on."""
    if script.name == 'papers.sh':
        all_of_it = ''
        for scale in 'small', 'full':
            code, out, err = output_of(['env', f'LACONIC={apps}/laconic', 'bash', str(script), 'all', scale, '--dry-run'])
            if code:
                fail(str(script), err)
            all_of_it += out
        return [line for line in all_of_it.splitlines() if line.startswith('/')]
    if '${1' in script.read_text():
        return [command for line in re.sub(r'\\\n\s*', ' ', script.read_text()).splitlines()
                for command in commands_in(line)]
    with tempfile.TemporaryDirectory() as folder:
        says = pathlib.Path(folder) / 'python3'
        says.write_text(f'#!{sys.executable}\nimport shlex, sys\nprint("python3", shlex.join(sys.argv[1:]))\n')
        says.chmod(0o755)
        done = subprocess.run(['bash', str(script)], cwd=SOURCE, stdout=subprocess.PIPE, text=True, check=True,
                              env={**os.environ, 'PATH': f'{folder}:{os.environ["PATH"]}'})
    return done.stdout.splitlines()


def known(words):
    """Not the synopsis of a command, and not a line of a table or of a program's output."""
    if any(re.fullmatch(r'\[.*|.*\]|APP|\|', w) for w in words) or words[-1].endswith('|'):
        return False
    name = name_of(words[0])
    return name in TRAINING or name in ('netns.sh', 'python3', 'chaos') or (name in ('lab', 'lab-solved') and len(words) > 1) or (
        name == 'laconic' and len(words) > 2 and words[1] in TOOLS and (words[1] != 'compare' or words[2] in TRAINING))

if __name__ == '__main__':
    main()
