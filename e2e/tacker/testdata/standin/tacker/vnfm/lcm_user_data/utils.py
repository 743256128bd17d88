"""What Tacker's helpers for UserData classes return, for the members that the project's packages have."""

import copy

GROUP = "OS::Heat::AutoScalingGroup"
TYPES = ("OS::Nova::Server", "OS::Neutron::Port", "OS::Cinder::Volume")


def create_initial_param_server_port_dict(base_hot_dict):
    nfv = {"VDU": {}, "CP": {}}
    for template in base_hot_dict.values():
        if not template.get("parameters", {}).get("nfv"):
            continue
        for resource in template["resources"].values():
            properties = resource.get("properties", {})
            if resource["type"] == GROUP:
                properties = properties["resource"].get("properties", {})
            elif resource["type"] not in TYPES:
                continue
            for value in properties.values():
                path = value.get("get_param") if isinstance(value, dict) else None
                if isinstance(path, list) and len(path) == 4 and path[0] == "nfv":
                    nfv[path[1]].setdefault(path[2], {})
    return {"nfv": nfv}


def create_final_param_dict(param_dict, vdu_flavor_dict, vdu_image_dict, cpd_vl_dict):
    final = copy.deepcopy(param_dict)
    for name, vdu in final["nfv"]["VDU"].items():
        vdu.update(flavor=vdu_flavor_dict.get(name), image=vdu_image_dict.get(name))
    for name, point in final["nfv"].get("CP", {}).items():
        point.update(cpd_vl_dict[name])  # Tacker, too, fails for a CP that the request lacks
    return final


def create_vdu_flavor_capability_name_dict(vnfd_dict):
    found = {}
    for name, node in vnfd_dict["topology_template"]["node_templates"].items():
        compute = node.get("capabilities", {}).get("virtual_compute", {}).get("properties", {})
        asked = compute.get("requested_additional_capabilities", {}).get("properties", {})
        if "requested_additional_capability_name" in asked:
            found[name] = asked["requested_additional_capability_name"]
    return found


def create_sw_image_dict(vnfd_dict):
    nodes = vnfd_dict["topology_template"]["node_templates"]
    images = {name: node.get("properties", {}).get("sw_image_data", {}) for name, node in nodes.items()}
    return {name: image["name"] for name, image in images.items() if "name" in image}


def get_desired_capacity_dict(base_hot_dict, vnfd_dict, inst_vnf_info):
    """How large the groups are that were scaled. The VNFs here have one, and its size is in the call."""
    return {}


def get_diff_base_hot_param_from_api(base_hot_dict, inst_req_info):
    """A member of additionalParams that is false, 0 or empty is none."""
    given = inst_req_info.additional_params or {}
    return {name: given[name] for name in base_hot_dict["heat_template"]["parameters"] if given.get(name)}
