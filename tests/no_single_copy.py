#!/usr/bin/env python3
"""Runs a command as a container without the right to trace runs it: the kernel refuses process_vm_readv and
process_vm_writev (EPERM), to it and to all that it starts. Needs no privilege.

  python3 tests/no_single_copy.py COMMAND ...
"""
import ctypes
import os
import platform
import struct
import sys

AUDIT_ARCH, CALLS = {"x86_64": (0xC000003E, (310, 311)), "aarch64": (0xC00000B7, (270, 271))}[platform.machine()]
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06  # of 32-bit words at a place, with a constant, a constant
ALLOW, EPERM = 0x7FFF0000, 0x00050001
program = [(LOAD, 0, 0, 4), (JUMP_IF_EQUAL, 0, 3, AUDIT_ARCH), (LOAD, 0, 0, 0),  # the architecture, the call's number
           (JUMP_IF_EQUAL, 2, 0, CALLS[0]), (JUMP_IF_EQUAL, 1, 0, CALLS[1]), (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, EPERM)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))


class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]


libc = ctypes.CDLL(None, use_errno=True)
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
for option, value, pointer in ((PR_SET_NO_NEW_PRIVS, 1, None),
                               (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(Filter(len(program), ctypes.addressof(code))))):
    if libc.prctl(option, ctypes.c_ulong(value), pointer, ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
os.execvp(sys.argv[1], sys.argv[1:])
