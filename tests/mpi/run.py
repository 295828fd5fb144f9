#!/usr/bin/env python3
"""Runs the MPI test program under mpirun: run.py PROGRAM RANKS SCENARIO. Exit code 77 (skipped) without mpirun.

all           must print ok and exit with 0
fingerprint, error, timeout, stopped, connecting, killed   must end all ranks: the expected exit code, and the
first line on stderr is the expected sentence
"""
import os
import re
import shutil
import signal
import subprocess
import sys

EXPECTED = {
    "fingerprint": r"laconic: error: fingerprint: rank 1 has 'batch=16' where rank 0 has 'batch=32'",
    "error": r"laconic: error: batch 7 has a label out of range$",
    "timeout": r"laconic: error: engine: rank 0 of \d saw nothing move for 4 s: waiting in vain waits for rank \d .*"
               r"\. Rank 1 computes; ",
    "stopped": r"laconic: error: engine: rank \d of \d saw nothing move for 3 s: waiting in vain waits for rank \d .*"
               r"There is no sign of life from rank 2 since \d+ s",
    "connecting": r"laconic: error: mpi: not all ranks are connected after 3 s: rank 1 was not heard of\. ",
    "killed": r"",  # mpirun sees it at once, ends the others, and says so
}

LOST_RANK = 3
EXIT_CODES = {"fingerprint": 1, "error": 1, "killed": 128 + signal.SIGKILL}  # of the others: LOST_RANK

program, ranks, scenario = sys.argv[1], sys.argv[2], sys.argv[3]
if not shutil.which("mpirun"):
    print("skipped: no mpirun in the path; Debian's package is openmpi-bin")
    sys.exit(77)

environment = dict(
    os.environ,
    OMPI_ALLOW_RUN_AS_ROOT="1",
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
    OMPI_MCA_mpi_yield_when_idle="1",
    OMPI_MCA_btl_vader_single_copy_mechanism="none",  # containers forbid process_vm_readv
    OMP_NUM_THREADS="1",
    # Open MPI unloads its components before the leak checker looks: suppressions could not name what they left.
    ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0",
)


def run_once():
    """Returns mpirun's exit code, stdout and stderr."""
    run = subprocess.Popen(["mpirun", "--oversubscribe", "-n", ranks, program, scenario], env=environment, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        out, err = run.communicate(timeout=800)
        return run.returncode, out, err
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)
        out, err = run.communicate()
        return run.returncode, out, err + "\nrun.py: mpirun still ran after 800 s"


code, out, err = run_once()
print(out, err, sep="\n")
if code == -signal.SIGSEGV and re.search(r"^\[.*libpmix\.so", err, re.M) and program not in err:
    # PMIx 4.2 may crash in mpirun itself, in an event of its own, while mpirun ends the ranks. That hides the ranks'
    # exit code, which is what is tested here. A second crash is a failure.
    print("run.py: mpirun crashed in PMIx; once more")
    code, out, err = run_once()
    print(out, err, sep="\n")
if scenario not in EXPECTED:
    sys.exit(0 if code == 0 and out.strip() == "ok" else 1)
# Open MPI 5 may complain about the machine's network interfaces.
noise = re.compile(r".*btl_tcp_proc\.c|Unable to find reachable pairing")
first = next((line for line in err.splitlines() if line.strip() and not noise.match(line)), "")
if code != EXIT_CODES.get(scenario, LOST_RANK) or not re.match(EXPECTED[scenario], first):
    sys.exit(f"run.py: exit code {code}, first line '{first}', expected /{EXPECTED[scenario]}/")
listed = len(re.findall(r"^  rank \d: ", err, re.M))
if scenario in ("timeout", "stopped") and (listed == 0 or listed % int(ranks)):
    sys.exit("run.py: the list does not name every rank")
# Two ranks may come to their time-outs before mpirun has ended one of them.
sentences = re.findall(r"laconic: error:.*", err)
if scenario != "killed" and len(set(sentences)) != len(sentences):
    sys.exit("run.py: the sentence was printed more than once")
