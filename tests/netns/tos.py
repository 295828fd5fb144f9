#!/usr/bin/env python3
"""Do packets carry the type of service that was asked for? Short trainings in network namespaces, and a raw capture.

    tos.py APPS

With a codec the packets between ranks carry 0x28, without one nothing; --tos says otherwise. What mpirun tells its
daemons is never marked. Exit status 77 (skipped) where namespaces cannot be made or packets not be captured.
"""
import collections
import json
import os
import select
import socket
import struct
import subprocess
import sys

from netns import SCRIPT, down, named, netns, skip

APPS = sys.argv[1]
ETH_P_ALL, IP, TCP, OUTGOING = 3, 0x0800, 6, 4
SO_RCVBUFFORCE = 33  # of root; the other one stops at net.core.rmem_max


def capture():
    """Counts bytes of outgoing TCP packets by type of service until standard input ends."""
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
    raw.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
    raw.settimeout(0.2)
    print('capturing', flush=True)
    counts = collections.Counter()
    ended = False
    while True:
        try:
            packet, (_, protocol, kind, *_) = raw.recvfrom(64)
        except socket.timeout:
            if ended:
                break
            ended = bool(select.select([0], [], [], 0)[0])
            continue
        if protocol == IP and kind == OUTGOING and len(packet) >= 20 and packet[9] == TCP:
            counts[packet[1]] += struct.unpack('!H', packet[2:4])[0]
    print(json.dumps(counts))


def check(options, expected):
    watcher = subprocess.Popen([SCRIPT, 'exec', '1', sys.executable, os.path.abspath(__file__), APPS, '--capture'],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if watcher.stdout.readline().strip() != 'capturing':
        watcher.wait()
        skip('packets cannot be captured here')
    out = netns('run', '-n', '2', f'{APPS}/mnist', '--model', 'lenet', '--data', 'synthetic:1000,100', '--batch', '4',
                '--steps', '20', '--threads', '1', *options.split(), '--quiet', '--json')
    account = json.loads(out.splitlines()[-1])['bytes_network_total'] / 2  # of this rank
    counts = {int(k): v for k, v in json.loads(watcher.communicate()[0]).items()}
    print(f'{options:<40} account {account:>10,.0f}  by type of service {counts}', flush=True)
    marked = sum(v for k, v in counts.items() if k != 0)
    if expected is None:
        assert marked == 0, 'packets are marked that should not be'
        assert counts[0] >= account, 'the capture lost packets'
    else:
        assert set(counts) <= {0, expected}, 'packets carry another type of service'
        assert marked >= account, 'some of what the ranks said is not marked'
        assert counts.get(0, 0) > 0, "mpirun's own packets are marked too"


def main():
    if '--capture' in sys.argv:
        return capture()
    named('lactos')
    try:
        netns('up', '2', '1gbit')
        check('', None)
        check('--codec inceptionn:2^-10', 0x28)
        check('--codec fp16 --tos none', None)
        check('--tos 0x48', 0x48)
    finally:
        down()


if __name__ == '__main__':
    main()
