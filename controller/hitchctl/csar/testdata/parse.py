"""Have OpenStack's TOSCA parser read packages, as Tacker does when it gets one.

parse.py PACKAGE… prints, for each, a line of JSON: the VNF, and of each deployment flavour its nodes by type, what its VDUs are started with, and its policies by type.
"""
import json
import os
import sys

from toscaparser.utils import yamlparser

# Debian 12's package of the parser lacks the file that it reads first.
load = yamlparser.load_yaml


def load_yaml(path, *more):
    if os.path.basename(path) == "TOSCA_definition_1_0.yaml" and not os.path.exists(path):
        path = os.path.join(os.path.dirname(__file__), "normative.yaml")
    return load(path, *more)


yamlparser.load_yaml = load_yaml

from toscaparser.prereq.csar import CSAR  # noqa: E402
from toscaparser.tosca_template import ToscaTemplate  # noqa: E402


def flavour(topology):
    nodes, vdus = {}, {}
    for name, node in topology.tpl["node_templates"].items():
        nodes.setdefault(node["type"], []).append(name)
        if node["type"] == "tosca.nodes.nfv.Vdu.Compute":
            flavor = node["capabilities"]["virtual_compute"]["properties"]["requested_additional_capabilities"]
            vdus[name] = [node["properties"]["sw_image_data"]["name"],
                          flavor["properties"]["requested_additional_capability_name"]]
    policies = {}
    for policy in topology.policies:
        policies.setdefault(policy.type, []).append({"properties": policy.properties, "targets": policy.targets})
    return {"nodes": {kind: sorted(names) for kind, names in nodes.items()}, "vdus": vdus, "policies": policies,
            "hooks": sorted(topology.tpl["node_templates"]["VNF"]["interfaces"]["Vnflcm"]),
            "artifacts": [a["file"] for a in topology.tpl["node_templates"]["VNF"]["artifacts"].values()]}


for path in sys.argv[1:]:
    csar = CSAR(path)
    if not csar.validate():
        sys.exit(path + " is not valid")
    tosca = ToscaTemplate(path, None, True)
    [vnf] = tosca.nodetemplates
    print(json.dumps({
        "vnf": {name: p.value for name, p in vnf.get_properties().items()},
        "flavours": {t.substitution_mappings.properties["flavour_id"]: flavour(t)
                     for t in tosca.nested_tosca_templates_with_topology},
    }, default=str))
