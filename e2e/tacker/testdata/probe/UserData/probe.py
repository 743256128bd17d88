"""UserData classes that show what Tacker's v1 API does with them."""

from tacker.vnfm.lcm_user_data import utils


class Plain:
    """Has instantiate alone. Images are named otherwise than those that are uploaded."""

    @staticmethod
    def instantiate(base_hot_dict=None, vnfd_dict=None, inst_req_info=None, grant_info=None):
        nfv = {"VDU": {name: {"image": name, "flavor": "small"} for name in ("one", "two")}, "CP": {}}
        return {"nfv": nfv, **utils.get_diff_base_hot_param_from_api(base_hot_dict, inst_req_info)}


class Asked(Plain):
    """Has heal and scale, too."""

    @staticmethod
    def heal(base_hot_dict, vnfd_dict, heal_vnf_request, vnf_instance, inst_vnf_info, param, vnfc_resource_info):
        return {**param, "text": "heal of " + param["text"]}

    @staticmethod
    def scale(base_hot_dict, vnfd_dict, scale_vnf_request, vnf_instance, inst_vnf_info, param, resource_number):
        return {**param, "text": "scale of " + param["text"]}


class Ids(Plain):
    """Gives Heat ids instead of names."""
