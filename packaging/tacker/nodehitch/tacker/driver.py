"""The management driver for Tacker's v1 API. Tacker calls each hook by keyword.

An exception makes the occurrence FAILED_TEMP, and its text is the detail that Tacker shows. A
retry calls the hook again, or only the ones after it.
"""

import functools
from typing import Any, Callable, List, TypeVar, cast

from nodehitch import client
from nodehitch.tacker import occurrence, vim
from nodehitch.tacker.hooks import Hook
from tacker.common import exceptions
from tacker.vnflcm import utils as vnflcm_utils
from tacker.vnfm.mgmt_drivers import vnflcm_abstract_driver

NAME = "nodehitch"  # of the entry point, and of the artifact in the VNFD

Method = TypeVar("Method", bound=Callable[..., None])


def hook(method: Method) -> Method:
    """Raise what goes wrong as Tacker's own exception."""
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> None:
        try:
            method(*args, **kwargs)
        except client.Error as error:
            raise exceptions.MgmtDriverOtherError(error_message=str(error)) from error
    return cast(Method, call)


class MgmtDriver(vnflcm_abstract_driver.VnflcmMgmtAbstractDriver):  # type: ignore[misc]  # Tacker has no types
    """Each hook posts its phase to the controller and waits. The settings are read for each."""

    def get_type(self) -> str:
        return NAME

    def get_name(self) -> str:
        return NAME

    def get_description(self) -> str:
        return "nodehitch brings the servers of a VNF to their roles"

    @hook
    def instantiate_start(self, context: Any, vnf_instance: Any, instantiate_vnf_request: Any, grant: Any, grant_request: Any, **kwargs: Any) -> None:
        now = occurrence.running(context, vnf_instance.id)
        vnf = Hook(vnf_instance.id, getattr(now, "id", None))
        parameters = instantiate_vnf_request.additional_params or {}
        vnf.hand_over(vnflcm_utils.get_vnf_package_path(context, vnf_instance.vnfd_id), parameters, "vnflcm_" + vnf_instance.id,
                      lambda: _vims(context, vnf_instance))
        vnf.start("INSTANTIATE")
        join = vnf.join_parameters()
        instantiate_vnf_request.additional_params = {**parameters, **join}
        occurrence.add_parameters(context, now, join)

    @hook
    def instantiate_end(self, context: Any, vnf_instance: Any, instantiate_vnf_request: Any, grant: Any, grant_request: Any, **kwargs: Any) -> None:
        _end(context, vnf_instance, "INSTANTIATE")

    @hook
    def terminate_start(self, context: Any, vnf_instance: Any, terminate_vnf_request: Any, grant: Any, grant_request: Any, **kwargs: Any) -> None:
        _begin(context, vnf_instance).start("TERMINATE")

    @hook
    def terminate_end(self, context: Any, vnf_instance: Any, terminate_vnf_request: Any, grant: Any, grant_request: Any, **kwargs: Any) -> None:
        vim.delete(context, vnf_instance.tenant_id, vnf_instance.id)
        _begin(context, vnf_instance).terminated()

    @hook
    def scale_start(self, context: Any, vnf_instance: Any, scale_vnf_request: Any, grant: Any, grant_request: Any, **kwargs: Any) -> None:
        if scale_vnf_request.type == "SCALE_OUT":
            return  # Tacker rolls a scale-out back
        _begin(context, vnf_instance).start("SCALE", vnfcInstanceIds=kwargs["scale_out_id_list"], **_scaling(scale_vnf_request))

    @hook
    def scale_end(self, context: Any, vnf_instance: Any, scale_vnf_request: Any, grant: Any, grant_request: Any, **kwargs: Any) -> None:
        _end(context, vnf_instance, "SCALE", **_scaling(scale_vnf_request))

    @hook
    def heal_start(self, context: Any, vnf_instance: Any, heal_vnf_request: Any, grant: Any, grant_request: Any, **kwargs: Any) -> None:
        vnf = _begin(context, vnf_instance)
        servers = _servers(vnf_instance, heal_vnf_request)
        vnf.start("HEAL", vnfcInstanceIds=servers)
        if not servers:  # Tacker makes the stack of the entire VNF anew, from these
            info = vnf_instance.instantiated_vnf_info
            info.additional_params = {**(info.additional_params or {}), **vnf.join_parameters()}

    @hook
    def heal_end(self, context: Any, vnf_instance: Any, heal_vnf_request: Any, grant: Any, grant_request: Any, **kwargs: Any) -> None:
        _end(context, vnf_instance, "HEAL", vnfcInstanceIds=_servers(vnf_instance, heal_vnf_request))

    @hook
    def change_external_connectivity_start(self, context: Any, vnf_instance: Any, change_ext_conn_request: Any, grant: Any, grant_request: Any,
                                           **kwargs: Any) -> None:
        _begin(context, vnf_instance).start("CHANGE_EXT_CONN", connectionPointNames=_points(change_ext_conn_request))

    @hook
    def change_external_connectivity_end(self, context: Any, vnf_instance: Any, change_ext_conn_request: Any, grant: Any, grant_request: Any,
                                         **kwargs: Any) -> None:
        _end(context, vnf_instance, "CHANGE_EXT_CONN", connectionPointNames=_points(change_ext_conn_request))

    @hook
    def modify_information_start(self, context: Any, vnf_instance: Any, modify_vnf_request: Any, **kwargs: Any) -> None:
        _begin(context, vnf_instance).start("MODIFY_INFO")

    @hook
    def modify_information_end(self, context: Any, vnf_instance: Any, modify_vnf_request: Any, **kwargs: Any) -> None:
        _end(context, vnf_instance, "MODIFY_INFO")


def _begin(context: Any, vnf_instance: Any) -> Hook:
    return Hook(vnf_instance.id, getattr(occurrence.running(context, vnf_instance.id), "id", None))


def _end(context: Any, vnf_instance: Any, operation: str, **members: Any) -> None:
    """Wait for the END of an operation. Then the cluster is as it is to be, and so is its VIM made."""
    vnf = _begin(context, vnf_instance)
    vnf.end(operation, stackId=str(vnf_instance.instantiated_vnf_info.instance_id), **members)
    of_cluster = vnf.vim()
    if of_cluster is not None:
        vim.register(context, vnf_instance.tenant_id, vnf_instance.id, *of_cluster)


def _vims(context: Any, vnf_instance: Any) -> List[client.Object]:
    of_stack = vnflcm_utils.get_vim(context, vnf_instance.vim_connection_info)
    return [{"id": of_stack["id"], "vimId": of_stack["vim_id"], "vimType": of_stack["vim_type"], "accessInfo": of_stack["access_info"]}]


def _scaling(request: Any) -> client.Object:
    return {"type": request.type, "aspectId": request.aspect_id, "numberOfSteps": request.number_of_steps}


def _servers(vnf_instance: Any, request: Any) -> List[str]:
    """The Nova servers of the VNFCs that a HEAL names; none for the entire VNF. The controller refuses a name that no VNFC has."""
    servers = {each.id: each.compute_resource.resource_id for each in vnf_instance.instantiated_vnf_info.vnfc_resource_info}
    return [servers.get(each, each) for each in request.vnfc_instance_id or []]


def _points(request: Any) -> List[str]:
    return [point.cpd_id for link in request.ext_virtual_links for point in link.ext_cps]
