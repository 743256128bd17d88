"""Run commands in turn, ROUNDS times each, and say what each run took.

    measure.py ROUNDS < {"name": [argv], …}

CPU time is that of all processes of a run, also of those that outlive the command.
"""
import ctypes
import json
import os
import resource
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h: orphans become children of this process


def cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(argv):
    before, began = cpu(), time.monotonic()
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          errors="replace")
    wall = time.monotonic() - began
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass
    return {"wall": wall, "cpu": cpu() - before, "code": done.returncode, "output": done.stdout}


if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
    sys.exit("cannot become the reaper of orphans")
commands = json.load(sys.stdin)
runs = {name: [] for name in commands}
for _ in range(int(sys.argv[1])):
    for name, argv in commands.items():
        runs[name].append(run(argv))
json.dump(runs, sys.stdout)
