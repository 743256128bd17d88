"""The management driver for Tacker's v1 API. Tacker calls each hook by keyword.

An exception makes the occurrence FAILED_TEMP, and its text is the detail that Tacker shows. A
retry calls the hook again, or only the ones after it.
"""

import functools
import logging
import os
from typing import Any, Callable, List, Set, TypeVar, cast

from nodehitch import client
from nodehitch.tacker import base_hot, hooks, kept, occurrence, packages, vim
from nodehitch.tacker.hooks import Hook
from tacker import conf
from tacker.common import exceptions
from tacker.vnflcm import utils as vnflcm_utils
from tacker.vnfm.mgmt_drivers import vnflcm_abstract_driver

LOG = logging.getLogger(__name__)

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
        kept.refuse(parameters, _declared(_base_hot(context, vnf_instance, instantiate_vnf_request.flavour_id)) - set(hooks.JOIN_PARAMETERS))
        vnf.hand_over(lambda: _package(context, vnf_instance), parameters, vnf_instance.vnf_instance_name,
                      lambda: _vims(context, vnf_instance), "vnflcm_" + vnf_instance.id)
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
        if kept.mend(context, vnf_instance.id, at_need=True):
            raise client.Error("what Tacker kept of the parameters of the stack vnflcm_%s could not go through another heal; "
                               "the driver has mended it, and nothing else was done: retry the operation" % vnf_instance.id)
        vnf = _begin(context, vnf_instance)
        servers = _servers(vnf_instance, heal_vnf_request)
        vnf.start_heal(_emptied(vnf_instance, heal_vnf_request), "its VDU requires it. From Tacker 2025.2 on, set heal_vnfc_block_storage = false "
                       "in [vnf_lcm] of tacker.conf; before, instantiate a VNF of a package without the requirement",
                       vnfcInstanceIds=servers, **hooks.of_heal("start", heal_vnf_request.additional_params))
        if not servers:  # Tacker makes the stack of the entire VNF anew, from these
            info = vnf_instance.instantiated_vnf_info
            info.additional_params = {**(info.additional_params or {}), **vnf.join_parameters()}

    @hook
    def heal_end(self, context: Any, vnf_instance: Any, heal_vnf_request: Any, grant: Any, grant_request: Any, **kwargs: Any) -> None:
        _end(context, vnf_instance, "HEAL", vnfcInstanceIds=_servers(vnf_instance, heal_vnf_request),
             **hooks.of_heal("end", heal_vnf_request.additional_params))

    @hook
    def change_external_connectivity_start(self, context: Any, vnf_instance: Any, change_ext_conn_request: Any, grant: Any, grant_request: Any,
                                           **kwargs: Any) -> None:
        _changeable(context, vnf_instance)
        _begin(context, vnf_instance).start("CHANGE_EXT_CONN", connectionPointNames=_points(change_ext_conn_request))

    @hook
    def change_external_connectivity_end(self, context: Any, vnf_instance: Any, change_ext_conn_request: Any, grant: Any, grant_request: Any,
                                         **kwargs: Any) -> None:
        _end(context, vnf_instance, "CHANGE_EXT_CONN", connectionPointNames=_points(change_ext_conn_request))

    @hook
    def modify_information_start(self, context: Any, vnf_instance: Any, modify_vnf_request: Any, **kwargs: Any) -> None:
        kept.mend(context, vnf_instance.id)
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


def _package(context: Any, vnf_instance: Any) -> str:
    """The folder of the VNF package, which Tacker finds by its VNFD. An administrator's context finds the first of several projects."""
    folder = str(vnflcm_utils.get_vnf_package_path(context, vnf_instance.vnfd_id))
    found = packages.with_vnfd(context, vnf_instance.vnfd_id)
    own = [each.id for each in found if each.project == vnf_instance.tenant_id]
    if len(found) > 1 and own != [os.path.basename(folder)]:
        LOG.warning("nodehitch: VNF instance %s: VNF packages with its VNFD %s: %s", vnf_instance.id, vnf_instance.vnfd_id,
                    ", ".join("%s of project %s" % each for each in sorted(found)))
        raise packages.ambiguous(vnf_instance.id, vnf_instance.vnfd_id, len(found))
    return folder


def _base_hot(context: Any, vnf_instance: Any, flavour: str) -> Any:
    """The base HOT that Tacker takes; without resources if the package has none."""
    found, _ = vnflcm_utils.get_base_nest_hot_dict(context, flavour, vnf_instance.vnfd_id)
    return found or {"resources": {}}


def _declared(hot: Any) -> Set[str]:
    return set(hot.get("parameters") or {})


def _changeable(context: Any, vnf_instance: Any) -> None:
    """Refuse a VNF whose stack Tacker cannot update.

    It sends the stack's own template, of the nested ones only those of groups' members, and the parameters as it has kept them. Neither
    knows of a scaling, and each update makes each group as large as they say.
    """
    info = vnf_instance.instantiated_vnf_info
    hot = _base_hot(context, vnf_instance, info.flavour_id)
    nested = base_hot.nested(hot)
    given = {**(info.additional_params or {}), hooks.ROOT_CERTIFICATE: "\n"}
    altered = [name for name in sorted(_declared(hot)) if kept.texts(given.get(name), "")]
    if nested or altered:
        faults = ["its resources %s are templates outside of groups, which Tacker does not send" % ", ".join(nested)] * bool(nested)
        faults += ["its parameters %s have texts that Tacker alters" % ", ".join(altered)] * bool(altered)
        raise client.Error(
            "Tacker's v1 API cannot change the external connectivity of a VNF of this package: of the base HOT %s, %s. Nothing was changed. "
            "Fail the operation. Make the package anew with hitchctl package build, and instantiate a VNF of it instead"
            % (info.flavour_id, "; ".join(faults)))
    scaled = occurrence.scaled(context, vnf_instance.id).aspects
    if scaled:
        raise client.Error(
            "Tacker's v1 API cannot change the external connectivity of this VNF now: it would send Heat the size that %s had before scaling, "
            "and Heat would delete or add servers. Nothing was changed. Fail the operation. Heal a VNFC, such as one worker: that gives Heat the "
            "present size. Then change the external connectivity" % ", ".join(scaled))


def _vims(context: Any, vnf_instance: Any) -> List[client.Object]:
    of_stack = vnflcm_utils.get_vim(context, vnf_instance.vim_connection_info)
    return [{"id": of_stack["id"], "vimId": of_stack["vim_id"], "vimType": of_stack["vim_type"], "accessInfo": of_stack["access_info"]}]


def _scaling(request: Any) -> client.Object:
    return {"type": request.type, "aspectId": request.aspect_id, "numberOfSteps": request.number_of_steps}


def _servers(vnf_instance: Any, request: Any) -> List[str]:
    """The Nova servers of the VNFCs that a HEAL names; none for the entire VNF. The controller refuses a name that no VNFC has."""
    servers = {each.id: each.compute_resource.resource_id for each in vnf_instance.instantiated_vnf_info.vnfc_resource_info}
    return [servers.get(each, each) for each in request.vnfc_instance_id or []]


def _emptied(vnf_instance: Any, request: Any) -> List[str]:
    """The volumes that Tacker replaces with the VNFCs that a HEAL names. Before 2025.2 it knows no setting, and replaces each."""
    lcm, info = conf.CONF.vnf_lcm, vnf_instance.instantiated_vnf_info
    key = getattr(lcm, "heal_include_block_storage_key", "")
    if not (request.additional_params or {}).get(key, getattr(lcm, "heal_vnfc_block_storage", True)):
        return []
    required = [volume for each in info.vnfc_resource_info if each.id in (request.vnfc_instance_id or []) for volume in each.storage_resource_ids]
    return [each.virtual_storage_desc_id for each in info.virtual_storage_resource_info if each.id in required]


def _points(request: Any) -> List[str]:
    return [point.cpd_id for link in request.ext_virtual_links for point in link.ext_cps]
