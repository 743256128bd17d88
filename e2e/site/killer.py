#!/usr/bin/python3
"""killer.py MOMENTS AGENT [ARGUMENT...]: becomes the agent, which is killed with
SIGKILL when it is about to log that an action begins or ends, each moment once. The
file MOMENTS has those at which it was killed, also by those that ran before.

The kernel holds every write to standard error until this program has read the line
(seccomp_unotify(2)): no line is missed, and the agent does not get past one at which it
is killed.
"""
import ctypes
import fcntl
import os
import signal
import socket
import struct
import sys

# Of linux/seccomp.h and linux/filter.h, on amd64.
SYS_WRITE, SYS_SECCOMP = 1, 317
SET_MODE_FILTER, NEW_LISTENER = 1, 8
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
USER_NOTIFICATION, ALLOW = 0x7FC00000, 0x7FFF0000
RECEIVE, SEND, CONTINUE = 0xC0502100, 0xC0182101, 1
NOTIFICATION = struct.Struct("QIIiIQ6Q")


def hold_stderr():
    """From now on this process and its children wait in write(2, ...) for the listener
    that it returns."""
    program = b"".join(struct.pack("HBBI", *instruction) for instruction in (
        (LOAD, 0, 0, 0),  # the system call
        (JUMP_IF_EQUAL, 0, 3, SYS_WRITE),
        (LOAD, 0, 0, 16),  # its first argument
        (JUMP_IF_EQUAL, 0, 1, 2),
        (RETURN, 0, 0, USER_NOTIFICATION),
        (RETURN, 0, 0, ALLOW)))
    buffer = ctypes.create_string_buffer(program)
    libc = ctypes.CDLL(None, use_errno=True)
    listener = libc.syscall(SYS_SECCOMP, SET_MODE_FILTER, NEW_LISTENER,
                            struct.pack("HP", len(program) // 8, ctypes.addressof(buffer)))
    if listener < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return listener


def follow(agent, listener, moments):
    """Lets the agent write line by line, and returns when one is a new moment."""
    seen = set(moments.read().splitlines())
    while os.getppid() == agent:
        try:
            held = bytearray(NOTIFICATION.size)
            fcntl.ioctl(listener, RECEIVE, held)
            number, thread, _, _, _, _, _, address, size, *_ = NOTIFICATION.unpack(held)
            with open("/proc/%d/mem" % thread, "rb", buffering=0) as memory:
                memory.seek(address)
                line = memory.read(size)
            moment = line.decode(errors="replace").partition(" took=")[0].strip()
            if 'msg="action ' in moment and moment not in seen:
                moments.write(moment + "\n")
                moments.flush()  # the service manager ends this process with the agent
                os.write(2, line)
                return
            fcntl.ioctl(listener, SEND, struct.pack("QqiI", number, 0, 0, CONTINUE))
        except (FileNotFoundError, ProcessLookupError):
            pass  # the writer has ended, or a signal makes it write once more


def main():
    agent, (mine, childs) = os.getpid(), socket.socketpair()
    if os.fork():
        socket.send_fds(mine, [b"\0"], [hold_stderr()])
        os.execv(sys.argv[2], sys.argv[2:])
    # A stop of the service reaches this process too, between a moment and its kill.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    mine.close()
    _, (listener,), _, _ = socket.recv_fds(childs, 1, 1)
    try:
        with open(sys.argv[1], "a+") as moments:
            moments.seek(0)
            follow(agent, listener, moments)
    finally:  # an agent that nothing holds any more does not run on
        os.kill(agent, signal.SIGKILL)


main()
