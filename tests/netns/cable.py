#!/usr/bin/env python3
"""A cable that is pulled out and put in again, one that stays out, and packets that come damaged:

    cable.py BUILD/apps

A training goes on to the weights of an undisturbed one, or says which machine is gone. Exit status 77: skipped.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from netns import SCRIPT, down, named, netns

APPS = sys.argv[1]
TRAINING = [f'{APPS}/mnist', '--data', 'synthetic:400,50', '--batch', '8', '--threads', '1', '--steps', '400',
            '--eval-every', '0', '--quiet', '--timeout', '8']


def start(folder, *more):
    return subprocess.Popen([SCRIPT, 'run', '-n', '3', *TRAINING, '--log', f'{folder}.jsonl', '--save', folder, *more],
                            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_for_steps(folder, count):
    """Until so many steps are in the log, or five minutes are over."""
    log = pathlib.Path(f'{folder}.jsonl')
    for _ in range(30000):
        if log.exists() and log.read_text().count('{"step"') >= count:
            return
        time.sleep(0.01)
    raise AssertionError(f'{log} has no {count} steps')


def weights(folder):
    return pathlib.Path(folder, 'weights.safetensors').read_bytes()


def ends_well(training, folder, expected):
    out, err = training.communicate()
    assert training.returncode == 0, f'{folder} ended with {training.returncode}:\n{out}{err}'
    assert weights(folder) == expected, f'{folder} has other weights than the undisturbed training'
    print(f'{os.path.basename(folder)}: the same weights', flush=True)


def main():
    named('laccab')
    with tempfile.TemporaryDirectory() as folder:
        try:
            netns('up', '3', '100mbit')
            undisturbed = start(f'{folder}/undisturbed')
            out, err = undisturbed.communicate()
            assert undisturbed.returncode == 0, err
            expected = weights(f'{folder}/undisturbed')

            training = start(f'{folder}/out-for-two-seconds')
            wait_for_steps(f'{folder}/out-for-two-seconds', 30)
            netns('cable', '2', 'out')
            time.sleep(2)
            netns('cable', '2', 'in')
            ends_well(training, f'{folder}/out-for-two-seconds', expected)

            damaging = subprocess.run([SCRIPT, 'exec', '3', 'tc', 'qdisc', 'replace', 'dev', 'eth0', 'root', 'netem',
                                       'corrupt', '1%'], capture_output=True, text=True)
            if damaging.returncode == 0:
                ends_well(start(f'{folder}/damaged-packets'), f'{folder}/damaged-packets', expected)
                netns('rate', '100mbit')
            else:
                print(f'damaged packets: not tried: {damaging.stderr.strip()}')

            training = start(f'{folder}/out-for-good')
            wait_for_steps(f'{folder}/out-for-good', 30)
            netns('cable', '2', 'out')
            sentence = next((line for line in training.stderr if line.startswith('laconic: error: ')), '')
            print(sentence.strip())
            assert 'saw nothing move for 8 s' in sentence, sentence
            assert 'There is no sign of life from rank 1 since' in sentence, sentence
            assert '10.41.0.2 acknowledges nothing: that machine or its cable is gone. ' in sentence, sentence
        finally:
            down()


if __name__ == '__main__':
    main()
