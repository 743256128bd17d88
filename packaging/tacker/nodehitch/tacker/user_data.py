"""The UserData class for Tacker's v1 API."""

from typing import Any

from nodehitch.client import Error, Object
from tacker.vnfm.lcm_user_data import utils
from tacker.vnfm.lcm_user_data.abstract_user_data import AbstractUserData


class KubernetesClusterUserData(AbstractUserData):  # type: ignore[misc]  # Tacker has no types
    """Fills nfv, and takes every other parameter of the base HOT from additionalParams.

    The driver has put the join parameters there. Tacker does not name the instance here.
    """

    @staticmethod
    def instantiate(base_hot_dict: Any = None, vnfd_dict: Any = None, inst_req_info: Any = None, grant_info: Any = None) -> Object:
        """The parameters of the stack."""
        named = utils.create_initial_param_server_port_dict(base_hot_dict)
        networks = _networks(inst_req_info)
        missing = sorted(set(named["nfv"]["CP"]) - set(networks))
        if missing:
            raise Error("extVirtualLinks of the request: no extCps entry has the cpdId %s; the base HOT needs the network of each"
                        % ", ".join(missing))
        places: Object = utils.create_final_param_dict(
            named, utils.create_vdu_flavor_capability_name_dict(vnfd_dict), utils.create_sw_image_dict(vnfd_dict), networks)
        return {**places, **utils.get_diff_base_hot_param_from_api(base_hot_dict, inst_req_info)}


def _networks(request: Any) -> Object:
    """The network of each CP. Tacker's create_network_dict fails for a CP without ipOverEthernet, as the specs' requests have them."""
    return {point.cpd_id: {"network": link.resource_id} for link in request.ext_virtual_links or [] for point in link.ext_cps}
