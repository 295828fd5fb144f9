#!/usr/bin/env python3
"""Do we count every byte? Short trainings in network namespaces, our account beside the counters of the interfaces.

    accounting.py APPS

For 2 and 4 ranks, ring and butterfly, and RedSync:   account <= counter <= 1.08 account + 1 MB
where the account is bytes_network_total of --json, and the counter is what all interfaces have sent meanwhile: our
bytes, MPI's, TCP's, and mpirun's own talk. The log's bytes_sent_sum must add up to bytes_sent_total, and fill the
account but for the weights at the start, the evaluation, and agreements. Exit status 77 (skipped) where namespaces
cannot be made.
"""
import json
import sys
import tempfile

from netns import down, named, netns

APPS = sys.argv[1]
MODEL, PARAMETERS, STEPS = 'lenet', 61706, 60
named('lactest')


def sent():
    return sum(int(line) for line in netns('counters').split())


def check(ranks, how, folder):
    log = f'{folder}/log.jsonl'
    before = sent()
    out = netns('run', '-n', str(ranks), f'{APPS}/mnist', '--model', MODEL, '--data', 'synthetic:1000,100', '--batch', '4',
                '--steps', str(STEPS), '--threads', '1', *how.split(), '--log', log, '--quiet', '--json')
    counter = sent() - before
    summary = json.loads(out.splitlines()[-1])
    steps = [json.loads(line) for line in open(log) if '"step"' in line]
    account, in_steps = summary['bytes_network_total'], summary['bytes_sent_total']
    dense = STEPS * 2 * (ranks - 1) * PARAMETERS * 4
    print(f'{ranks} ranks, {how:<56} account {account:>12,}  counter {counter:>12,}  {counter / account:.3f}',
          flush=True)
    assert len(steps) == STEPS
    assert sum(s['bytes_sent_sum'] for s in steps) == in_steps, 'the log does not add up to bytes_sent_total'
    if 'redsync' in how:   # fc1's 48,000 weights are almost all that is left out
        assert 0.2 * dense <= in_steps <= 0.3 * dense + 100_000, f'the steps sent {in_steps} bytes of {dense}'
    else:
        assert dense <= in_steps <= 1.02 * dense + 100_000, f'the steps sent {in_steps} bytes, {dense} were expected'
    besides = account - in_steps
    weights = (ranks - 1) * PARAMETERS * 4
    assert weights <= besides <= 2 * weights + 500_000, f'{besides} bytes belong to no step'
    assert account <= counter, 'the interfaces saw less than we counted'
    assert counter <= 1.08 * account + 1e6, 'the interfaces saw more than we counted'


def main():
    try:
        for ranks in (2, 4):
            netns('up', str(ranks), '1gbit')
            for how in ('--allreduce ring', '--allreduce butterfly', '--sync redsync --density 0.01'):
                with tempfile.TemporaryDirectory() as folder:
                    check(ranks, how, folder)
    finally:
        down()


if __name__ == '__main__':
    main()
