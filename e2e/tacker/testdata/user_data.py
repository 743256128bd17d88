"""Runs the UserData class that a request names as Tacker's v1 API does, and prints its parameters.

user_data.py PACKAGE: standard input is what Tacker gives the class, as JSON.
"""

import importlib
import json
import os
import sys
from types import SimpleNamespace

said = json.load(sys.stdin)


def point(of):
    """An ExtCp. The specs' requests give it no addresses."""
    without = SimpleNamespace(ip_over_ethernet=None)  # as Tacker has it then
    configs = [SimpleNamespace(cp_protocol_data=[without for _ in each["cpProtocolData"]]) for each in of["cpConfig"]]
    return SimpleNamespace(cpd_id=of["cpdId"], cp_config=configs)


links = said["ext_virtual_links"] and [
    SimpleNamespace(resource_id=link["resourceId"], ext_cps=[point(each) for each in link["extCps"]]) for link in said["ext_virtual_links"]]
request = SimpleNamespace(additional_params=said["additional_params"], ext_virtual_links=links)
path = os.path.join(sys.argv[1], request.additional_params["lcm-operation-user-data"])
sys.path.append(os.path.dirname(path))
module = importlib.import_module(os.path.splitext(os.path.basename(path))[0])
named = getattr(module, request.additional_params["lcm-operation-user-data-class"])
json.dump(named.instantiate({**said["nested"], "heat_template": said["hot"]}, said["vnfd"], request, {}), sys.stdout)
