"""Runs the UserData class that a request names as Tacker's v2 API does, and prints the fields for Heat.

Standard input is what Tacker gives the class, as JSON.
"""

import importlib
import json
import os
import sys

import csar

said = json.load(sys.stdin)
with csar.copied(said):
    sys.path.append(said["tmp_csar_dir"])
    parameters = said["request"]["additionalParams"]
    path = os.path.splitext(os.path.normpath(parameters["lcm-operation-user-data"]))[0]
    module = importlib.import_module(path.replace("/", "."))
    named = getattr(module, parameters["lcm-operation-user-data-class"])
    method = getattr(named, said["grant_request"]["operation"].lower())
    fields = method(said["request"], said["vnf_instance"], said["grant_request"], said["grant_response"], said["tmp_csar_dir"])
json.dump(fields, sys.stdout)
