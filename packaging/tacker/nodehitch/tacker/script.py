"""The management script for Tacker's v2 API.

Tacker runs it once for each hook, with a pickle of what it knows on standard input. Exit code 1
makes the occurrence FAILED_TEMP, with standard error as the detail that Tacker shows.
"""

import importlib
import logging
import os
import pickle
import sys
import warnings
from typing import Any, Dict, List

from nodehitch import client
from nodehitch.tacker.hooks import Hook, of_heal

OPERATIONS = {
    "instantiate": "INSTANTIATE", "scale": "SCALE", "heal": "HEAL", "terminate": "TERMINATE", "modify_information": "MODIFY_INFO",
    "change_external_connectivity": "CHANGE_EXT_CONN", "change_current_package": "CHANGE_VNFPKG",
}
KEPT = "user_script_err_handling_data"  # what Tacker passes from one hook of an operation to the next
BEFORE = "nodehitch_servers_before_heal"


class _Unpickler(pickle.Unpickler):
    """Reads plain values. The pickle is Tacker's own, and has nothing that would have to be imported or run."""

    def find_class(self, module: str, name: str) -> Any:
        raise client.Error("what Tacker says has a %s.%s; expected plain values" % (module, name))


def main() -> None:
    """Run the hook that standard input names."""
    try:
        said = _Unpickler(sys.stdin.buffer).load()
        if "LcmCoordRequest" in said:
            coordinate(said)
        else:
            run(said)
    except client.Error as error:
        sys.exit(str(error))


def run(said: client.Object) -> None:
    """One hook of an operation."""
    instance, parameters = said["vnf_instance"], said["request"].get("additionalParams") or {}
    operation, _, phase = said["operation"].rpartition("_")
    vnf = Hook(instance["id"], (said["grant_request"] or {}).get("vnfLcmOpOccId"))
    vims = list((instance.get("vimConnectionInfo") or {}).values())
    if said["operation"] == "instantiate_start":
        vnf.hand_over(lambda: _package(said, instance["vnfdId"]), parameters, instance.get("vnfInstanceName"), lambda: vims, _stack(instance))
    elif said["operation"] == "change_current_package_start":
        vnf.hand_over(lambda: _package(said, said["request"]["vnfdId"]), parameters, instance.get("vnfInstanceName"), lambda: vims)
    if said["operation"] in ("terminate_end", "instantiate_rollback_end"):
        if vnf.may_have_vim():
            _of_tacker("vim_v2").delete(instance)
        vnf.terminated()
        return
    if said["operation"] == "change_external_connectivity_rollback_end":
        vnf.rolled_back("CHANGE_EXT_CONN", stackId=_stack(instance), **_members(said, vnf))
    elif said["operation"] == "scale_rollback_end":
        vnf.rolled_back("SCALE", stackId=_stack(instance), **_members(said, vnf))
    elif operation not in OPERATIONS:
        return  # of another rollback: Tacker's
    elif said["operation"] == "heal_start":
        emptied = [each["resourceTemplateId"] for each in _removed(said, "STORAGE")]
        vnf.start_heal(emptied, 'additionalParams has "all": true. Heal without it', **_members(said, vnf))
    elif phase == "start":
        vnf.start(OPERATIONS[operation], **_members(said, vnf))
    else:
        vnf.end(OPERATIONS[operation], stackId=_stack(instance), **_members(said, vnf))
    if phase == "end":
        of_cluster = vnf.vim()
        if of_cluster is not None:
            _of_tacker("vim_v2").register(instance, *of_cluster)
    if said["operation"] == "heal_start":
        pickle.dump({KEPT: {BEFORE: _servers(instance)}}, sys.stdout.buffer)


def _package(said: client.Object, vnfd: str) -> str:
    """A folder with what the VNF package has. Tacker gives a script a copy of it, before 2023.2 without Files."""
    copy = str(said["tmp_csar_dir"])
    if os.path.isdir(os.path.join(copy, "Files")):
        return copy
    return _of_tacker("tacker_v2").package_folder(said["vnf_instance"]["id"], vnfd) or copy


def _of_tacker(module: str) -> Any:
    """A module that uses Tacker's. What those log and warn of is no part of the error that Tacker shows."""
    logging.getLogger().addHandler(logging.NullHandler())
    warnings.simplefilter("ignore")
    return importlib.import_module("nodehitch.tacker." + module)


def _members(said: client.Object, vnf: Hook) -> client.Object:
    """What the hook's operation says besides its phase."""
    hook, request = said["operation"], said["request"]
    if hook in ("scale_start", "scale_end", "scale_rollback_end"):
        scaling = {key: request[key] for key in ("type", "aspectId", "numberOfSteps")}
        leaving = [each["resource"]["resourceId"] for each in _removed(said, "COMPUTE")]
        return {**scaling, "vnfcInstanceIds": leaving} if hook == "scale_start" else scaling
    if hook in ("heal_start", "heal_end"):
        return {"vnfcInstanceIds": _healed(said, vnf), **of_heal(hook[len("heal_"):], request.get("additionalParams"))}
    if hook.startswith("change_external_connectivity_"):
        return {"connectionPointNames": [point["cpdId"] for link in request["extVirtualLinks"] for point in link["extCps"]]}
    return {}


def _healed(said: client.Object, vnf: Hook) -> List[str]:
    """The servers of the VNFCs that a HEAL names, before Heat or after it; none for the entire VNF.

    Before 2023.2 Tacker passes nothing from heal_start to heal_end. Then they are those that the controller knows and Heat has replaced.
    """
    names = said["request"].get("vnfcInstanceId")
    if not names:
        return []
    if said["operation"] == "heal_start":
        servers = _vnfcs(said["vnf_instance"])
        return [servers.get(each, each) for each in names]  # the controller refuses what is no VNFC
    before = (said.get(KEPT) or {}).get(BEFORE)
    now = _servers(said["vnf_instance"])
    if before is None:
        return [each for each in vnf.servers() if each not in now]
    return [each for each in now if each not in before]


def _removed(said: client.Object, kind: str) -> List[client.Object]:
    """What the grant says of the resources of a kind that Tacker takes away."""
    return [each for each in (said["grant_request"] or {}).get("removeResources") or [] if each["type"] == kind]


def _stack(instance: client.Object) -> str:
    """Heat's id of the stack, its name before Tacker has kept the id."""
    return str(_info(instance).get("metadata", {}).get("stack_id", "vnf-" + instance["id"]))


def _info(instance: client.Object) -> client.Object:
    info: client.Object = instance.get("instantiatedVnfInfo") or {}
    return info


def _vnfcs(instance: client.Object) -> Dict[str, str]:
    """The Nova server of each VNFC that has one, by their ids."""
    info = _info(instance)
    servers = {each["id"]: each["computeResource"]["resourceId"] for each in info.get("vnfcResourceInfo") or []}
    return {each["id"]: servers[each["vnfcResourceInfoId"]] for each in info.get("vnfcInfo") or [] if each.get("vnfcResourceInfoId") in servers}


def _servers(instance: client.Object) -> List[str]:
    return [each["computeResource"]["resourceId"] for each in _info(instance).get("vnfcResourceInfo") or []]


def coordinate(said: client.Object) -> None:
    """Wait until a server that a new VNF package has changed is Ready (lcm-operation-coordinate-new-vnf)."""
    Hook(said["inst"]["id"]).ready(_vnfcs(said["inst"])[said["vnfc_info_id"]])
