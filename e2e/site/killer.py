#!/usr/bin/python3
"""killer.py FILE: kills the agent with SIGKILL when its log says that an action
begins or ends, each moment once, and writes down which."""
import json
import os
import re
import signal
import subprocess
import sys
import time

# From now on, however long journalctl takes to begin.
journal = subprocess.Popen(
    ["journalctl", "--follow", "--no-tail", "--since=@%.6f" % time.time(), "--output=json", "--unit=nodehitch-agent"],
    stdout=subprocess.PIPE)
seen = set()
with open(sys.argv[1], "w", buffering=1) as killed:
    for line in journal.stdout:
        entry = json.loads(line)
        message = entry.get("MESSAGE")
        moment = isinstance(message, str) and re.search(
            r'msg="action (?:started|finished)" condition=\S+ action=(?:"(?:[^"\\]|\\.)*"|\S+)', message)
        if not moment or moment.group() in seen:
            continue
        seen.add(moment.group())
        try:
            os.kill(int(entry["_PID"]), signal.SIGKILL)
        except ProcessLookupError:
            continue
        killed.write(moment.group() + "\n")
