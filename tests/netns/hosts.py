#!/usr/bin/env python3
"""What `laconic doctor --hosts` finds between hosts that are network namespaces:

    hosts.py BUILD/apps

rates, of which one cable's is lower; Docker's bridge, which has one network on all hosts and joins none;
long messages that a switch drops. A script stands in for ssh. Exit status 77: skipped.
"""
import json
import os
import subprocess
import sys
import tempfile

from netns import SCRIPT, down, named, netns

APPS = sys.argv[1]
HOSTS = ('10.41.0.1', '10.41.0.2', '10.41.0.3')
SSH = """#!/bin/bash
# Runs a command on a host, as ssh does, by the script that netns.sh has made.
while [[ $1 == -* ]]; do case $1 in -o | -p | -l) shift 2 ;; *) shift ;; esac; done
exec {agent} "$@"
"""


def doctor(folder):
    """What is not well between the hosts, and what is said of the rest."""
    run = subprocess.run([SCRIPT, 'exec', '1', 'env', f'PATH={folder}:{os.environ["PATH"]}', f'{APPS}/laconic', 'doctor',
                          '--hosts', ','.join(HOSTS), '--json'], text=True, capture_output=True, timeout=300)
    assert run.stdout.startswith('{'), run.stdout + run.stderr
    findings = [f for f in json.loads(run.stdout)['findings'] if f['topic'] in ('network', 'mpirun', *HOSTS)]
    for f in findings:
        print(f"{f['verdict']:<8} {f['topic']:<10} {f['found']}. {f.get('mend', '')}", flush=True)
    wrong = [f for f in findings if f['verdict'] != 'ok']
    return wrong, [f['found'] for f in findings if f['verdict'] == 'ok']


def main():
    named('lachst')
    with tempfile.TemporaryDirectory() as folder:
        try:
            netns('up', '3', '100mbit')
            ssh = os.path.join(folder, 'ssh')
            with open(ssh, 'w', encoding='utf-8') as script:
                script.write(SSH.format(agent=f'/run/{os.environ["LACONIC_NET"]}-agent'))
            os.chmod(ssh, 0o755)

            netns('rate', '10mbit', '2')
            wrong, well = doctor(folder)
            assert sum('10.41.0.' in line and 'Mbit/s, back' in line and 'by eth0' in line for line in well) == 3, well
            assert any('ranks train together' in line for line in well), well
            assert not wrong, wrong
            netns('rate', '100mbit', '2')

            for k in ('1', '2', '3'):
                netns('exec', k, 'sh', '-c', 'ip link add docker0 type bridge && ip addr add 172.17.0.1/16 dev docker0 && '
                                             'ip link set docker0 up')
            wrong, well = doctor(folder)
            assert len(wrong) == 1 and wrong[0]['found'].startswith('docker0 is 172.17.0.0/16 on '), wrong
            assert wrong[0]['mend'] == 'laconic launch --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0', wrong
            assert any('ranks train together' in line and line.endswith('if_include eth0') for line in well), well

            for k in ('1', '2', '3'):  # packets as long as they are on a wire: the kernel hands none over in one piece
                netns('exec', k, 'sh', '-c', 'ip link del docker0 && ip link set eth0 mtu 9000 gso_max_segs 1')
            wrong, well = doctor(folder)
            assert len(wrong) == 1 and 'the MTU, 9000, is more than the way takes' in wrong[0]['found'], wrong
        finally:
            down()


if __name__ == '__main__':
    main()
