"""The UserData class for Tacker's v2 API."""

from typing import Any

from nodehitch.client import Object
from nodehitch.tacker import base_hot
from nodehitch.tacker.hooks import Hook
from tacker.sol_refactored.common import common_script_utils
from tacker.sol_refactored.infra_drivers.openstack.userdata_default import DefaultUserData


class KubernetesClusterUserData(DefaultUserData):  # type: ignore[misc]  # Tacker has no types
    """Tacker's default class, with the other parameters of the base HOT.

    Those of the same name are taken from additionalParams, and those by which servers reach the
    controller from the controller: no script can give them to Tacker's v2 API. A heal with
    "all": true makes a new stack, so its request has to name this class and those parameters
    again.
    """

    @staticmethod
    def instantiate(req: Any, inst: Any, grant_req: Any, grant: Any, tmp_csar_dir: str) -> Object:
        """The template and parameters of the stack."""
        fields: Object = DefaultUserData.instantiate(req, inst, grant_req, grant, tmp_csar_dir)
        points = {name: each["network"] for name, each in (fields["parameters"]["nfv"].get("CP") or {}).items() if "network" in each}
        base_hot.need_networks(points, [name for name, network in points.items() if network])
        return _complete(fields, req, inst, req["flavourId"], tmp_csar_dir)

    @staticmethod
    def heal(req: Any, inst: Any, grant_req: Any, grant: Any, tmp_csar_dir: str) -> Object:
        """The parameters that change, or those of the new stack."""
        fields: Object = DefaultUserData.heal(req, inst, grant_req, grant, tmp_csar_dir)
        return _complete(fields, req, inst, inst["instantiatedVnfInfo"]["flavourId"], tmp_csar_dir)

    @staticmethod
    def change_vnfpkg_rollback(req: Any, inst: Any, grant_req: Any, grant: Any, tmp_csar_dir: str) -> Object:
        """What the stack had before. Tacker's class takes the image away from servers in groups: it looks for a property that these do not have."""
        return {"parameters": {"nfv": inst["instantiatedVnfInfo"]["metadata"]["nfv"]}}


def _complete(fields: Object, req: Any, inst: Any, flavour: str, tmp_csar_dir: str) -> Object:
    vnfd = common_script_utils.get_vnfd(inst["vnfdId"], tmp_csar_dir)
    declared = vnfd.get_base_hot(flavour)["template"].get("parameters") or {}
    given = {**(req.get("additionalParams") or {}), **Hook(inst["id"]).join_parameters()}
    fields["parameters"].update({key: value for key, value in given.items() if key in declared and key != "nfv"})
    return fields
