"""Runs the UserData class that a request names as Tacker's v1 API does, and prints its parameters.

user_data.py PACKAGE: standard input is what Tacker gives the class, as JSON.
"""

import importlib
import json
import os
import sys
from types import SimpleNamespace

said = json.load(sys.stdin)
request = SimpleNamespace(additional_params=said["additional_params"], ext_virtual_links=[
    SimpleNamespace(resource_id=link["resourceId"], ext_cps=[SimpleNamespace(cpd_id=point["cpdId"]) for point in link["extCps"]])
    for link in said["ext_virtual_links"]])
path = os.path.join(sys.argv[1], request.additional_params["lcm-operation-user-data"])
sys.path.append(os.path.dirname(path))
module = importlib.import_module(os.path.splitext(os.path.basename(path))[0])
named = getattr(module, request.additional_params["lcm-operation-user-data-class"])
json.dump(named.instantiate({**said["nested"], "heat_template": said["hot"]}, said["vnfd"], request, {}), sys.stdout)
