"""What Tacker's default UserData class gives Heat, for the members of nfv that the project's packages have."""

import yaml

from tacker.sol_refactored.common import common_script_utils


class DefaultUserData:
    @staticmethod
    def instantiate(req, inst, grant_req, grant, tmp_csar_dir):
        vnfd = common_script_utils.get_vnfd(inst["vnfdId"], tmp_csar_dir)
        hot, nodes = vnfd.get_base_hot(req["flavourId"]), vnfd.nodes(req["flavourId"])
        nfv = {}
        for kind, name, member in _asked(hot["template"]["resources"]):
            if kind == "CP":
                links = req.get("extVirtualLinks", [])
                value = next((link["resourceId"] for link in links for point in link["extCps"] if point["cpdId"] == name), None)
            else:
                value = _of_vdu(nodes[name], name, member, grant_req)
            nfv.setdefault(kind, {}).setdefault(name, {})[member] = value
        return {"template": yaml.safe_dump(hot["template"]), "parameters": {"nfv": nfv},
                "files": {name: yaml.safe_dump(content) for name, content in hot["files"].items()}}

    @staticmethod
    def heal(req, inst, grant_req, grant, tmp_csar_dir):
        return {"parameters": {"nfv": {}}}

    @staticmethod
    def change_vnfpkg(req, inst, grant_req, grant, tmp_csar_dir):
        """Flavours and images as the new VNFD has them, and the connection points that the request has."""
        vnfd, flavour = common_script_utils.get_vnfd(grant_req["dstVnfdId"], tmp_csar_dir), inst["instantiatedVnfInfo"]["flavourId"]
        nodes, nfv = vnfd.nodes(flavour), {"VDU": {}, "CP": {}}
        for kind, name, member in _asked(vnfd.get_base_hot(flavour)["template"]):
            if member in ("computeFlavourId", "vcImageId"):
                nfv[kind].setdefault(name, {})[member] = _of_vdu(nodes[name], name, member, grant_req)
        assert "extVirtualLinks" not in req, req
        return {"parameters": {"nfv": nfv}}

    @staticmethod
    def change_vnfpkg_rollback(req, inst, grant_req, grant, tmp_csar_dir):
        """Images of servers in groups are found by a property image-VDU of theirs. Without one the image is None."""
        hot = common_script_utils.get_vnfd(inst["vnfdId"], tmp_csar_dir).get_base_hot(inst["instantiatedVnfInfo"]["flavourId"])
        vdus = {name: {"vcImageId": None} for kind, name, member in _asked(hot["template"]) if member == "vcImageId"}
        return {"parameters": {"nfv": {"VDU": vdus, "CP": {}}}}


def _asked(value):
    """Each path of four into nfv that something of the template gets."""
    if isinstance(value, list):
        for each in value:
            yield from _asked(each)
    if isinstance(value, dict):
        path = value.get("get_param")
        if isinstance(path, list) and len(path) == 4 and path[0] == "nfv":
            yield path[1:]
        for each in value.values():
            yield from _asked(each)


def _of_vdu(node, name, member, grant_req):
    if member == "computeFlavourId":
        asked = node["capabilities"]["virtual_compute"]["properties"]["requested_additional_capabilities"]
        return asked["properties"]["requested_additional_capability_name"]
    if member == "vcImageId":
        return node["properties"]["sw_image_data"]["name"]
    assert member == "desired_capacity", member
    return sum(1 for each in grant_req["addResources"] if each["type"] == "COMPUTE" and each["resourceTemplateId"] == name)
