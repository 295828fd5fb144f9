#!/usr/bin/env python3
"""Hostile trials: what the programs do when files are damaged, disks fail, processes are killed and options make no
sense. Each trial must end in one of two ways: as if nothing had happened, to the last bit, or with one sentence and an
exit code. Nothing may crash, hang, or change what it should not.

  python3 tests/hostile/trials.py build/apps                    3,500 trials, some ten minutes
  python3 tests/hostile/trials.py build/apps --trials 60        a sample, as the test suite runs it
  python3 tests/hostile/trials.py build/apps --only kills --seed 7

kills    SIGKILL at a file operation of a save, over all strategies; then --resume: the undisturbed weights
disk     an operation on a file fails (EIO, ENOSPC): a sentence, and the last checkpoint is still good
files    mutated checkpoints, weights, plans, configurations, logs, data sets
options  random combinations of options and values
ranks    a rank under `laconic launch` is killed, stopped or crashes
launchers  another launcher starts it (its variables, and MPICH's mpiexec where there is one): refused without --alone
"""
import argparse
import collections
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("apps", help="the folder with the programs")
parser.add_argument("--trials", type=int, default=3500, help="in all [3500]")
parser.add_argument("--seed", type=int, default=1, help="of what is chosen at random [1]")
parser.add_argument("--only", choices=["kills", "disk", "files", "options", "ranks", "launchers"], help="one kind alone")
arguments = parser.parse_args()
apps = os.path.abspath(arguments.apps)
rng = random.Random(arguments.seed)
here = os.path.dirname(os.path.abspath(__file__))
top = tempfile.mkdtemp(prefix="laconic-hostile-")
failures = collections.Counter()
ended = collections.Counter()  # programs, by exit code
KINDS = {"kills": 0.06, "disk": 0.06, "files": 0.735, "options": 0.12, "ranks": 0.01, "launchers": 0.015}  # of all trials

TRAINING = "mnist --model lenet --data synthetic:64,16 --batch 4 --threads 1 --quiet --timeout 20".split()
STEPS = 4


class Outcome:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err
        self.errors = [line for line in err.splitlines() if line.startswith("laconic: error: ")]


def environment(**more):
    others = ("OPENBLAS_", "OMP_", "OMPI_", "PMI_", "PMIX_", "SLURM_", "RANK", "WORLD_SIZE")
    env = {k: v for k, v in os.environ.items() if not k.startswith(others)}
    return {**env, "ASAN_OPTIONS": "detect_leaks=0", **more}


def run(words, timeout=60, cwd=None, **env):
    """The outcome; code None: it hung."""
    process = subprocess.Popen([os.path.join(apps, words[0])] + words[1:], stdin=subprocess.DEVNULL, cwd=cwd or top,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(**env),
                               start_new_session=True)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return Outcome(None, out.decode(errors="replace"), err.decode(errors="replace"))
    ended[process.returncode] += 1
    return Outcome(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))


def fail(kind, what, outcome):
    failures[kind] += 1
    print(f"FAILED {kind}: {what}\n  exit code {outcome.code}\n  " + outcome.err.strip().replace("\n", "\n  "), flush=True)


def said(outcome):
    """Whether an outcome that is not 0 is one sentence with a fitting exit code."""
    return outcome.code in (1, 2, 3) and len(outcome.errors) == 1


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def fresh(name):
    path = os.path.join(top, name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


# -------------------------------------------------------------------------------------------------------- strategies

def strategies():
    """Options of every --sync that trains as it is, of which all checkpoints are made."""
    after = run(["mnist", "--help"]).out.split("--sync NAME", 1)[1]
    lines = re.split(r"\n +--", after, maxsplit=1)[0].splitlines()[1:]
    found = []
    for name in [line.split()[0] for line in lines]:
        if not re.fullmatch("[a-z-]+", name):
            continue  # the rest of a summary
        words = ["--sync", name, "--workers", "2"] + (["--threshold", "0.01"] if name == "strom" else [])
        if run(TRAINING + words + ["--steps", "1"]).code == 0:
            found.append(words)
        else:
            print(f"note: {' '.join(words)} does not train as it is")
    return found


undisturbed = {}


def reference(words):
    """The folder of a training that nothing disturbed; a checkpoint after every step."""
    key = " ".join(words)
    if key not in undisturbed:
        folder = fresh(f"reference-{len(undisturbed)}")
        outcome = run(TRAINING + words + ["--steps", str(STEPS), "--save-every", "1it", "--save", folder])
        assert outcome.code == 0, outcome.err
        undisturbed[key] = folder
    return undisturbed[key]


def weights(folder):
    return contents(os.path.join(folder, "weights.safetensors"))


def shim():
    library = os.path.join(top, "fault.so")
    if not os.path.exists(library):
        subprocess.run(["c++", "-std=c++17", "-O1", "-shared", "-fPIC", "-o", library, os.path.join(here, "fault.cc"), "-ldl"],
                       check=True)
    return library


operations = {}


def training_with_fault(words, folder, what):
    """A training that saves after every step, with a fault at one of its operations on files in `folder`."""
    command = TRAINING + words + ["--steps", str(STEPS), "--save-every", "1it", "--save", folder]
    key = " ".join(words)
    if key not in operations:
        count = os.path.join(top, "count")
        run(command, LD_PRELOAD=shim(), HOSTILE_UNDER=folder, HOSTILE_COUNT=count)
        operations[key] = len(contents(count))
        os.remove(count)
        shutil.rmtree(folder)
        os.makedirs(folder)
    at = rng.randint(1, operations[key])
    return at, run(command, LD_PRELOAD=shim(), HOSTILE_UNDER=folder, HOSTILE_AT=str(at), HOSTILE_DO=what)


def goes_on(kind, words, folder, what):
    """--resume must come to the undisturbed weights."""
    outcome = run(TRAINING + words + ["--steps", str(STEPS), "--save-every", "1it", "--save", folder, "--resume"])
    if outcome.code != 0 or weights(folder) != weights(reference(words)):
        fail(kind, what, outcome)
    left = [n for n in os.listdir(folder) if n.endswith(".tmp")]
    if outcome.code == 0 and left:
        fail(kind, f"{what}: leaves {left}", outcome)


def kills(words):
    folder = fresh("kills")
    at, outcome = training_with_fault(words, folder, "kill")
    what = f"{' '.join(words)}, killed at operation {at}"
    if outcome.code not in (0, -signal.SIGKILL):
        return fail("kills", what, outcome)
    goes_on("kills", words, folder, what)


def disk(words):
    folder = fresh("disk")
    error = rng.choice(["EIO", "ENOSPC"])
    at, outcome = training_with_fault(words, folder, error)
    what = f"{' '.join(words)}, {error} at operation {at}"
    if outcome.code != 0 and not said(outcome):
        return fail("disk", what, outcome)
    goes_on("disk", words, folder, what)


# -------------------------------------------------------------------------------------------------------- files

def mutated(data):
    data = bytearray(data)
    how = rng.choice(["bit", "byte", "cut", "zeros", "insert", "swap", "random"])
    at = rng.randrange(len(data)) if data else 0
    if not data or how == "insert":
        data[at:at] = rng.randbytes(rng.choice([1, 7, 4096]))
    elif how == "bit":
        data[at] ^= 1 << rng.randrange(8)
    elif how == "byte":
        data[at] = rng.choice([0, 0xFF, ord('"'), ord("\n"), ord("{"), ord("-"), ord("9")])
    elif how == "cut":
        del data[at:]
    elif how == "zeros":
        data[at:at + 4096] = bytes(len(data[at:at + 4096]))
    elif how == "swap":
        other = rng.randrange(len(data))
        data[at:at + 64], data[other:other + 64] = data[other:other + 64], data[at:at + 64]
    else:
        data[at:at + 16] = rng.randbytes(16)
    return how, bytes(data)


def damaged_checkpoint(words):
    """Resumes from a copy of the undisturbed training's last but one step, with one file damaged."""
    folder = os.path.join(top, "damaged")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(reference(words), folder)
    newest, older = (os.path.join(folder, f"checkpoint-{step:012}") for step in (STEPS, STEPS - 1))
    names = sorted(os.listdir(newest))
    name = rng.choice(names)
    how = rng.choice(["mutate", "older", "exchange"])
    path = os.path.join(newest, name)
    if how == "mutate":
        how, data = mutated(contents(path))
        write(path, data)
    elif how == "older":
        shutil.copy(os.path.join(older, name), path)
    else:
        write(path, contents(os.path.join(newest, rng.choice(names))))
    outcome = run(TRAINING + words + ["--steps", str(STEPS), "--save", folder, "--resume"])
    if not (outcome.code == 0 and weights(folder) == weights(reference(words))):
        fail("files", f"{' '.join(words)}: {name} of a checkpoint, {how}", outcome)


def make_inputs():
    """Files that programs read, by name: (bytes, command that reads it as FILE)."""
    folder = fresh("inputs")
    base = TRAINING + ["--steps", "2"]
    plan = run(base + ["--workers", "2", "--dry-run", "--json"]).out.strip().splitlines()[-1]
    log = os.path.join(folder, "log.jsonl")
    run(base + ["--log", log])
    photos = "imagenet --model resnet18 --image-size 32 --batch 2 --threads 1 --quiet --steps 1 --data".split()
    inputs = {
        "weights": (weights(reference(["--sync", "allreduce", "--workers", "2"])), base + ["--init", "FILE"]),
        "plan": (plan.encode(), base + ["--workers", "2", "--plan", "FILE"]),
        "config": (b'batch = 8\nlr = 0.1\nschedule = "cosine"\n# a comment\n',
                   base + ["--config", "FILE"]),
        "log": (contents(log), base + ["--save", "SAVED", "--resume", "--steps", "3", "--log", "FILE"]),
        "text": (b"the cat sat on the mat . the dog ate .\n" * 60,
                 "ptb --model lstm-small --batch 1 --bptt 4 --threads 1 --quiet --steps 1 --data FILE".split()),
    }
    trace = os.path.join(folder, "trace.json")
    run(base + ["--trace", trace])
    inputs["trace"] = (contents(trace), ["laconic", "report", log, "--trace", "FILE", "-o", os.path.join(folder, "page.html")])
    pack = os.path.join(folder, "photos.pack")
    if run(["laconic", "pack", "synthetic:6,4", pack]).code == 0:
        inputs["pack"] = (contents(pack), photos + ["FILE"])
    return inputs


inputs = {}


def files(words):
    if rng.random() < 0.4:
        return damaged_checkpoint(words)
    if not inputs:
        inputs.update(make_inputs())
    name = rng.choice(sorted(inputs))
    data, command = inputs[name]
    path = os.path.join(top, "mutated")
    how, data = mutated(data)
    write(path, data)
    if "SAVED" in command:
        saved = os.path.join(top, "saved")
        shutil.rmtree(saved, ignore_errors=True)
        shutil.copytree(reference(["--sync", "none", "--workers", "1"]), saved)
        command = command[:command.index("--steps")] + ["--sync", "none", "--steps", str(STEPS + 1)] + [
            w for w in command[command.index("--save"):] if w not in ("--steps", "3")]
    outcome = run([{"FILE": path, "SAVED": os.path.join(top, "saved")}.get(w, w) for w in command])
    if outcome.code != 0 and not said(outcome):
        fail("files", f"{name}, {how} ({' '.join(command)})", outcome)
        shutil.copy(path, os.path.join(tempfile.gettempdir(), f"laconic-hostile-{name}"))


# -------------------------------------------------------------------------------------------------------- options

VALUES = ["", "0", "1", "2", "3", "-1", "0.5", "1e-3", "nan", "inf", "1e400", "99999999999999999999", "100000", "x", "none",
          "all", "a,b", "1,2", "2it", "norm:5", "value:1", "ring", "butterfly", "hierarchical:2", "hybrid", "redsync",
          "lazy:64KiB", "copy:1MiB", "cosine", "step:1,0.1", "warmup:1+cosine", "inceptionn:2^-10", "bf16", "topk",
          "100mbit,1ms", "0=1mbit,1ms", "adam", "mean", "forward", "\x01", "é", "--", "="]
PLACES = ["--save", "--log", "--trace", "--dump-gradients"]
NEVER = {"--help", "--version", "--workers", "--threads", "--timeout", "--epochs", "--repeat", "--model", "--data"}


known = {}


def all_options(program):
    """What kind of value each option takes, as --help tells it; "" for none."""
    if program not in known:
        found = re.findall(r"^\s+(--[a-z0-9-]+)(?: (\S+))?(?: \.\.\.)?(?:\s{2,}|\s*$)", run([program, "--help"]).out, re.M)
        known[program] = {name: kind for name, kind in found if name not in NEVER}
    return known[program]


def value_for(kind):
    """Mostly one that may make sense."""
    if rng.random() < 0.2:
        return rng.choice(VALUES)
    if "|" in kind and kind == kind.lower():
        return rng.choice(kind.split("|"))
    if kind in ("NAME", "NAME,..", "RULE"):
        return rng.choice([v for v in VALUES if v[:1].isalpha()])
    return rng.choice(["1", "2", "0.5", "0.01", "3", "2it", "norm:5", "bf16", "100mbit,1ms", "64KiB"])


def options(_):
    kinds = all_options("mnist")
    folder = fresh("options")
    words = list(TRAINING) + ["--workers", rng.choice(["1", "2", "3"]), "--steps", "2"]
    for option in rng.sample(sorted(kinds), rng.randint(1, 3)):
        words.append(option)
        if option in PLACES:
            words.append(os.path.join(folder, rng.choice(["a", "no/such/a", "."])))
        elif kinds[option] or rng.random() < 0.05:
            words.append(value_for(kinds[option]))
    outcome = run(words, timeout=120, cwd=folder)
    if outcome.code != 0 and not said(outcome):
        fail("options", " ".join(words), outcome)


# -------------------------------------------------------------------------------------------------------- ranks

def ranks_of(parent):
    """Processes below `parent` by their rank."""
    found = {}
    children = collections.defaultdict(list)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                children[int(file.read().rsplit(")", 1)[1].split()[1])].append(int(pid))
        except OSError:
            pass
    below = [parent]
    for pid in below:
        below += children[pid]
        try:
            rank = re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", contents(f"/proc/{pid}/environ"))
        except OSError:
            continue
        if rank:
            found[int(rank.group(1))] = pid
    return found


def ranks(_):
    count = rng.choice([2, 3])
    command = ["laconic", "launch", "-n", str(count)] + TRAINING[:-1] + ["6", "--steps", "100000", "--allreduce",
                                                                        rng.choice(["ring", "butterfly"])]
    process = subprocess.Popen([os.path.join(apps, command[0])] + command[1:], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), cwd=top)
    deadline = time.time() + 30
    while len(ranks_of(process.pid)) < count and time.time() < deadline:
        time.sleep(0.1)
    time.sleep(rng.uniform(0.5, 3))
    alive = ranks_of(process.pid)
    victim, pid = rng.choice(sorted(alive.items()))
    how = rng.choice([signal.SIGKILL, signal.SIGSEGV, signal.SIGSTOP])
    os.kill(pid, how)
    try:
        out, err = process.communicate(timeout=60)
        outcome = Outcome(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))
    except subprocess.TimeoutExpired:
        process.kill()
        outcome = Outcome(None, "", process.communicate()[1].decode(errors="replace"))
    left = [pid for pid in alive.values() if os.path.exists(f"/proc/{pid}")]
    if outcome.code != 3 or not any(f"rank {victim}" in e for e in outcome.errors) or left:
        fail("ranks", f"{' '.join(command)}: {how.name} of rank {victim}", outcome)


# -------------------------------------------------------------------------------------------------------- launchers

def set_by(launcher, rank, count):
    """The variables by which a launcher tells a process that it is one of several."""
    tasks = {"SLURM_NTASKS": count, "SLURM_PROCID": rank, "SLURM_LOCALID": rank, "SLURM_JOB_ID": 7}
    return {k: str(v) for k, v in {
        "none": {},
        "mpich": {"PMI_RANK": rank, "PMI_SIZE": count, "MPI_LOCALRANKID": rank, "MPI_LOCALNRANKS": count},
        "srun": {**tasks, "SLURM_STEP_ID": 0, "SLURM_STEP_NUM_TASKS": count},
        "srun --mpi=pmi2": {**tasks, "SLURM_STEP_ID": 0, "SLURM_STEP_NUM_TASKS": count, "PMI_RANK": rank, "PMI_SIZE": count},
        "srun --mpi=pmix": {**tasks, "SLURM_STEP_ID": 0, "SLURM_STEP_NUM_TASKS": count, "PMIX_RANK": rank},
        "sbatch": {**tasks, "SLURM_PROCID": 0},
        "torchrun": {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1"},
        "pmix": {"PMIX_RANK": rank, "PMIX_NAMESPACE": "job"},
        "another Open MPI": {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": count,
                             "OMPI_ALLOW_RUN_AS_ROOT": 1, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": 1},
    }[launcher].items()}


def launchers(_):
    folder = fresh("launchers")
    log = os.path.join(folder, "log.jsonl")
    words = TRAINING + ["--steps", "2", "--log", log] + rng.choice([[], ["--workers", "1"], ["--workers", "2"]])
    alone = rng.random() < 0.4
    mpiexec = shutil.which("mpiexec.hydra") or shutil.which("mpiexec.mpich")
    if mpiexec and rng.random() < 0.3:
        begin = [mpiexec, "-n", "2", os.path.join(apps, words[0])] + words[1:]
        process = subprocess.run(begin + (["--alone"] if alone else []), stdin=subprocess.DEVNULL, capture_output=True,
                                 env=environment(), cwd=folder, timeout=60)
        outcome = Outcome(process.returncode, process.stdout.decode(errors="replace"), process.stderr.decode(errors="replace"))
        # Each of them would write to the log: one of two that train alone is refused too.
        wanted = "another run writes to" if alone else "started 2 times by another launcher (PMI_SIZE=2)"
        if outcome.code == 0 or len(outcome.errors) != 1 or wanted not in outcome.errors[0]:
            fail("launchers", " ".join(begin), outcome)
        return
    count = rng.choice([1, 2, 16])
    rank = rng.choice([0, count - 1])
    launcher = rng.choice(["none", "mpich", "srun", "srun --mpi=pmi2", "srun --mpi=pmix", "sbatch", "torchrun", "pmix",
                           "another Open MPI"])
    several = count > 1 and launcher not in ("none", "sbatch") and (launcher != "pmix" or rank > 0)
    refused = several and not alone
    outcome = run(words + (["--alone"] if alone else []), **set_by(launcher, rank, count))
    # One of the processes says it; ranks of an Open MPI all do.
    silent = refused and launcher != "another Open MPI" and rank > (1 if launcher == "pmix" else 0)
    # Under an Open MPI's mpirun --workers must be what that started, and a world of one is a world.
    contradicts = launcher == "another Open MPI" and not alone and "--workers" in words
    right = (outcome.code == 2 and outcome.errors == [] if silent else
             outcome.code == 2 and len(outcome.errors) == 1 if refused else
             said(outcome) or outcome.code == 0 if contradicts else outcome.code == 0)
    if not right or refused and os.path.exists(log) and os.path.getsize(log) > 0:
        fail("launchers", f"{launcher}, rank {rank} of {count}: {' '.join(words)}{' --alone' if alone else ''}", outcome)


# -------------------------------------------------------------------------------------------------------- all

def main():
    begin = time.time()
    have_mpirun = shutil.which("mpirun") is not None
    todo = []
    for kind, share in KINDS.items():
        if arguments.only in (None, kind) and (kind != "ranks" or have_mpirun):
            todo += [kind] * max(1, round(arguments.trials * (1 if arguments.only else share)))
    rng.shuffle(todo)
    synced = strategies() if any(k in ("kills", "disk", "files") for k in todo) else [None]
    for i, kind in enumerate(todo):
        if sys.stderr.isatty():
            print(f"\r{i} of {len(todo)} trials", end="", file=sys.stderr, flush=True)
        globals()[kind](rng.choice(synced))
    print(", ".join(f"{n} {kind}" for kind, n in sorted(collections.Counter(todo).items())) +
          f": {sum(failures.values())} failed (programs ended " +
          ", ".join(f"{n} times with {code}" for code, n in sorted(ended.items())) + f"; {time.time() - begin:.0f} s, --seed {arguments.seed})")
    return 1 if failures else 0


try:
    sys.exit(main())
finally:
    shutil.rmtree(top, ignore_errors=True)
