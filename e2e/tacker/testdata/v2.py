"""Runs the script of a VNF package as Tacker's v2 API does: a pickle on standard input, another, or nothing, back.

v2.py SCRIPT: standard input is what Tacker says, as JSON; the result is {"code", "error", "output"}.
"""

import json
import os
import pickle
import subprocess
import sys

import csar

said = json.load(sys.stdin)
script = os.path.relpath(sys.argv[1], said["tmp_csar_dir"])
if said.pop("foreign", False):  # what no Tacker says: something that would have to be imported
    said["request"] = subprocess.CompletedProcess([], 0)
with csar.copied(said):
    run = ["setpriv", "--pdeathsig", "KILL", sys.executable, os.path.join(said["tmp_csar_dir"], script)]  # a killed Tacker leaves none
    ended = subprocess.run(run, input=pickle.dumps(said), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
try:
    output = pickle.loads(ended.stdout)
except EOFError:
    output = {}
json.dump({"code": ended.returncode, "error": str(ended.stderr), "output": output}, sys.stdout)
