"""The UserData class for Tacker's v1 API."""

from typing import Any

from nodehitch import client
from nodehitch.client import Object
from nodehitch.tacker import base_hot, kept, occurrence
from nodehitch.tacker.hooks import Hook
from tacker import context as tacker_context
from tacker.vnfm.lcm_user_data import utils
from tacker.vnfm.lcm_user_data.abstract_user_data import AbstractUserData


class KubernetesClusterUserData(AbstractUserData):  # type: ignore[misc]  # Tacker has no types
    """Fills nfv, and takes every other parameter of the base HOT from additionalParams."""

    @staticmethod
    def instantiate(base_hot_dict: Any = None, vnfd_dict: Any = None, inst_req_info: Any = None, grant_info: Any = None) -> Object:
        """The parameters of the stack. The driver has put the join parameters into additionalParams: Tacker names no instance here."""
        named = utils.create_initial_param_server_port_dict(base_hot_dict)
        networks = _networks(inst_req_info)
        base_hot.need_networks(named["nfv"]["CP"], networks)
        places: Object = utils.create_final_param_dict(
            named, utils.create_vdu_flavor_capability_name_dict(vnfd_dict), utils.create_sw_image_dict(vnfd_dict), networks)
        return {**places, **_given(base_hot_dict, inst_req_info.additional_params)}

    @staticmethod
    def heal(base_hot_dict: Any, vnfd_dict: Any, heal_request: Any, vnf_instance: Any, inst_vnf_info: Any, param: Any,
             vnfc_resource_info: Any) -> Object:
        """The parameters of the stack at a heal of VNFCs."""
        return _again(base_hot_dict, vnf_instance, inst_vnf_info, param)

    @staticmethod
    def scale(base_hot_dict: Any, vnfd_dict: Any, scale_request: Any, vnf_instance: Any, inst_vnf_info: Any, param: Any,
              resource_number: Any) -> Object:
        """The parameters of the stack at the rollback of a scale-out, and at the few other scalings that update it.

        The update makes each group as large as its parameter says, which knows nothing of scalings before; or as a heal has written.
        """
        scaled = occurrence.scaled(tacker_context.get_admin_context(), vnf_instance.id)
        if scaled.healed and scaled.aspects:
            raise client.Error("Tacker's v1 API cannot take this scaling back: Heat would make %s as large as at the last heal, and delete or add "
                               "servers. Fail the operation, then heal a VNFC, such as one worker" % ", ".join(scaled.aspects))
        numbers = {**utils.get_desired_capacity_dict(base_hot_dict, vnfd_dict, inst_vnf_info), scale_request.aspect_id: resource_number}
        sizes = {name: numbers[group] for group, name in base_hot.sizes(base_hot_dict["heat_template"]).items() if group in numbers}
        return {**_again(base_hot_dict, vnf_instance, inst_vnf_info, param), **sizes}


def _again(base_hot_dict: Any, vnf_instance: Any, inst_vnf_info: Any, param: Any) -> Object:
    """What Tacker has kept (param), and what it alters from where that does not change."""
    fresh = {**(inst_vnf_info.additional_params or {}), **Hook(vnf_instance.id).join_parameters()}
    fresh.pop("nfv", None)
    own = {name: value for name, value in param.items() if name == "nfv" or not kept.texts(value, "")}
    return {**own, **_given(base_hot_dict, fresh)}


def _given(base_hot_dict: Any, parameters: Any) -> Object:
    """The parameters that the base HOT declares. Tacker's own helper leaves out what is false, 0 or empty."""
    declared = base_hot_dict["heat_template"].get("parameters") or {}
    return {name: kept.for_heat(value) for name, value in (parameters or {}).items() if name in declared and value is not None}


def _networks(request: Any) -> Object:
    """The network of each CP. Tacker's create_network_dict fails for a CP without ipOverEthernet, as the specs' requests have them."""
    return {point.cpd_id: {"network": link.resource_id} for link in request.ext_virtual_links or [] for point in link.ext_cps}
