"""Runs the UserData class that a request names as Tacker's v2 API does, and prints the fields for Heat.

Standard input is what Tacker gives the class, as JSON. With "stack", which is what Heat has, it prints also what
Heat has then, and what Heat refuses. A request that names no class is for Tacker's own.
"""

import importlib
import json
import os
import sys

import csar
import yaml

from heat import Heat, Refused
from tacker.sol_refactored.infra_drivers.openstack.userdata_default import DefaultUserData


def merged(old, new):
    """JSON Merge Patch (RFC 7386)."""
    if not isinstance(new, dict):
        return new
    old = old if isinstance(old, dict) else {}
    both = {**old, **{name: merged(old.get(name), value) for name, value in new.items()}}
    return {name: value for name, value in both.items() if value is not None}


def to_heat(said, fields):
    """A new stack at an instantiation and at a heal of all. Otherwise Heat keeps what the fields lack."""
    heat, parameters, refused = Heat(said["stack"], {}), dict(fields["parameters"]), None
    instantiation = said["grant_request"]["operation"] == "INSTANTIATE"
    if not instantiation:  # Tacker merges nfv alone
        parameters["nfv"] = merged(heat.parameters["nfv"], parameters["nfv"])
    try:
        if instantiation:
            heat.create(yaml.safe_load(fields["template"]), {name: yaml.safe_load(text) for name, text in fields["files"].items()}, parameters)
        elif (said["request"].get("additionalParams") or {}).get("all") and "vnfcInstanceId" not in said["request"]:
            heat.create(heat.template, heat.files, parameters)
        else:
            heat.patch(parameters)
    except Refused as refusal:
        refused = str(refusal)
    return {"stack": {"template": heat.template, "files": heat.files, "parameters": heat.parameters}, "refused": refused}


said = json.load(sys.stdin)
with csar.copied(said):
    parameters, named = said["request"].get("additionalParams") or {}, DefaultUserData
    if "lcm-operation-user-data" in parameters:
        sys.path.append(said["tmp_csar_dir"])
        path = os.path.splitext(os.path.normpath(parameters["lcm-operation-user-data"]))[0]
        module = importlib.import_module(path.replace("/", "."))
        named = getattr(module, parameters["lcm-operation-user-data-class"])
    method = getattr(named, said["grant_request"]["operation"].lower() + ("_rollback" if said["is_rollback"] else ""))
    fields = method(said["request"], said["vnf_instance"], said["grant_request"], said["grant_response"], said["tmp_csar_dir"])
if "stack" in said:
    fields.update(to_heat(said, fields))
json.dump(fields, sys.stdout, default=str)  # the version of a template is a date
