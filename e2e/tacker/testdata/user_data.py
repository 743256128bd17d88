"""Runs the UserData class that a request names as Tacker's v1 API does, and prints its parameters.

user_data.py PACKAGE: standard input is what Tacker gives the class, as JSON.
"""

import importlib
import json
import os
import sys
from types import SimpleNamespace


def named(package, parameters):
    """The class."""
    path = os.path.join(package, parameters["lcm-operation-user-data"])
    sys.path.append(os.path.dirname(path))
    module = importlib.import_module(os.path.splitext(os.path.basename(path))[0])
    return getattr(module, parameters["lcm-operation-user-data-class"])


def request(parameters, links):
    """An InstantiateVnfRequest."""
    links = links and [SimpleNamespace(resource_id=link["resourceId"], ext_cps=[_point(each) for each in link["extCps"]]) for link in links]
    return SimpleNamespace(additional_params=parameters, ext_virtual_links=links)


def _point(of):
    """An ExtCp. The specs' requests give it no addresses."""
    without = SimpleNamespace(ip_over_ethernet=None)  # as Tacker has it then
    configs = [SimpleNamespace(cp_protocol_data=[without for _ in each["cpProtocolData"]]) for each in of["cpConfig"]]
    return SimpleNamespace(cpd_id=of["cpdId"], cp_config=configs)


def main():
    said = json.load(sys.stdin)
    parameters = said["additional_params"]
    base = {**said["nested"], "heat_template": said["hot"]}
    json.dump(named(sys.argv[1], parameters).instantiate(base, said["vnfd"], request(parameters, said["ext_virtual_links"]), {}), sys.stdout)


if __name__ == "__main__":
    main()
