"""Does what Tacker's v1 API does between two hooks: prints what it sends to Heat, and what it keeps of that.

stack.py PACKAGE: standard input is what Tacker knows, as JSON: "kept" are the parameters that it keeps, and "before"
those of before the operation's first hook, if that may have changed them. With "stack" and "images", which are what Heat and
Glance have, it prints also what they have then, and what Heat refuses. facts_test.go says where Tacker does it.
"""

import copy
import glob
import importlib.util
import json
import os
import sys
import uuid
from types import SimpleNamespace

import user_data
import yaml

from heat import Heat, Refused
from tacker.vnfm.lcm_user_data import utils


def read(folder):
    """The templates in a folder, by name."""
    hots = {}
    for path in glob.glob(os.path.join(folder, "*.yaml")):
        with open(path) as file:
            hots[os.path.basename(path)] = yaml.load(file, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # much faster
    return hots


class Package:
    """A VNF package of one flavour."""

    def __init__(self, folder, flavour):
        self.folder = folder
        base = os.path.join(folder, "BaseHOT", flavour)
        self.base, = read(base).values()
        self.nested = read(os.path.join(base, "nested"))
        self.hots = {**copy.deepcopy(self.nested), "heat_template": self.base}
        self.vnfd, = [vnfd for name, vnfd in read(os.path.join(folder, "Definitions")).items() if name.endswith("_df_%s.yaml" % flavour)]

    def kept(self, text, vdus):
        """The parameters that Tacker has kept. VDUs that are healed have flavour and image as the VNFD names them."""
        parameters = yaml.safe_load(text)
        declared = {"nfv": {"VDU": utils.create_initial_param_server_port_dict(self.hots)["nfv"]["VDU"]}}
        named = utils.create_final_param_dict(
            declared, utils.create_vdu_flavor_capability_name_dict(self.vnfd), utils.create_sw_image_dict(self.vnfd), {})["nfv"]["VDU"]
        for vdu in vdus:
            if named.get(vdu) and parameters["nfv"]["VDU"].get(vdu):
                parameters["nfv"]["VDU"][vdu] = named[vdu]
        return parameters

    def resize(self, groups):
        """The base HOT has the present sizes of the groups as numbers."""
        for name, size in groups.items():
            properties = self.base["resources"][name]["properties"]
            if properties.get("desired_capacity"):
                properties["desired_capacity"] = size

    def images(self):
        """What is uploaded at an instantiation: one for each VDU with a file, whatever its name is."""
        for node in self.vnfd["topology_template"]["node_templates"].values():
            data = node.get("properties", {}).get("sw_image_data")
            for artifact in node.get("artifacts", {}).values():
                if data and artifact.get("type") == "tosca.artifacts.nfv.SwImage" and artifact.get("file"):
                    yield data["name"]

    def asked(self, method, said, parameters, more):
        """What the UserData class makes of the parameters, if it has this method. They stay as they are if not."""
        given = said["additional_params"]
        path, name = given.get("lcm-operation-user-data"), given.get("lcm-operation-user-data-class")
        if path is None or name is None:
            return parameters
        spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], self.folder + "/" + path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        call = getattr(getattr(module, name), method, None)
        if not callable(call):
            return parameters
        info = SimpleNamespace(flavour_id=said["flavour"], additional_params=given)
        instance = SimpleNamespace(id=said.get("instance"), instantiated_vnf_info=info)
        return {**call(self.hots, self.vnfd, SimpleNamespace(**said.get("request", {})), instance, info, parameters, more)} or parameters


def instantiate(package, said):
    given = said["additional_params"]
    request = user_data.request(given, said["ext_virtual_links"])
    parameters = user_data.named(package.folder, given).instantiate(package.hots, package.vnfd, request, {})
    return package.base, package.nested, parameters, str(parameters)


def heal_entire(package, said):
    """Another instantiation, with what the instance keeps and groups of the present size. Then the conductor does what it does after each heal."""
    template, nested, parameters, text = instantiate(package, said)
    package.resize(said["groups"])
    return template, nested, parameters, str(package.kept(text, said["vdus"]))


def heal(package, said):
    """Of VNFCs. What the UserData class makes of the parameters is sent and not kept: that is of before the hooks."""
    kept = package.kept(said["kept"], said["vdus"])
    package.resize(said["groups"])
    vnfcs = [SimpleNamespace(vdu_id=vdu) for vdu in said["vdus"]]
    return package.base, package.nested, package.asked("heal", said, kept, vnfcs), str(package.kept(said.get("before", said["kept"]), said["vdus"]))


def change_ext_conn(package, said):
    """With the templates that Heat has: its own and those of the members of its groups. The UserData class is not asked."""
    parameters = yaml.safe_load(said.get("before", said["kept"]))
    for name, network in said["networks"].items():
        point = parameters["nfv"]["CP"].get(name, {})
        if point.get("network"):
            point["network"] = network
    return json.loads(said["template"]), {name: json.loads(text) for name, text in said["members"].items()}, parameters, str(parameters)


def scale(package, said):
    """The rollback of a scale-out, and a scale-out of a group that is empty. Other scalings send no parameters."""
    parameters = package.asked("scale", said, yaml.safe_load(said.get("before", said["kept"])), said["number"])
    return None, None, parameters, str(parameters)


OPERATIONS = {each.__name__: each for each in (instantiate, heal_entire, heal, change_ext_conn, scale)}


def to_heat(package, said, template, nested, parameters):
    """What Heat and Glance have then, and what Heat refuses. Of a change of connectivity Tacker only logs that."""
    images, refused = said["images"], None
    if said["operation"] in ("instantiate", "heal_entire"):
        images = {str(uuid.uuid4()): name for name in package.images()}
    heat = Heat(said["stack"], images)
    try:
        if said["operation"] in ("heal", "scale"):
            heat.patch(parameters, template, nested)
        else:
            heat.create(template, nested, parameters)
    except Refused as refusal:
        refused = str(refusal)
    return {"stack": {"template": heat.template, "files": heat.files, "parameters": heat.parameters}, "images": images, "refused": refused}


def main():
    said = json.load(sys.stdin)
    package = Package(sys.argv[1], said["flavour"])
    template, nested, parameters, kept = OPERATIONS[said["operation"]](package, said)
    answer = {"parameters": parameters, "kept": kept}
    if "stack" in said:
        answer.update(to_heat(package, said, template, nested, parameters))
    else:
        answer.update(template=template and yaml.safe_dump(template), files={name: yaml.safe_dump(hot) for name, hot in (nested or {}).items()} or None)
    json.dump(answer, sys.stdout, default=str)  # the version of a template is a date


if __name__ == "__main__":
    main()
