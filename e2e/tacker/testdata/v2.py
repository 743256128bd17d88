"""Runs the script of a VNF package as Tacker's v2 API does: a pickle on standard input, another, or nothing, back.

v2.py SCRIPT: standard input is what Tacker says, as JSON; the result is {"code", "error", "output"}.
"""

import json
import pickle
import subprocess
import sys

said = json.load(sys.stdin)
if said.pop("foreign", False):  # what no Tacker says: something that would have to be imported
    said["request"] = subprocess.CompletedProcess([], 0)
script = ["setpriv", "--pdeathsig", "KILL", sys.executable, sys.argv[1]]  # a killed Tacker leaves none
ended = subprocess.run(script, input=pickle.dumps(said), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
try:
    output = pickle.loads(ended.stdout)
except EOFError:
    output = {}
json.dump({"code": ended.returncode, "error": str(ended.stderr), "output": output}, sys.stdout)
