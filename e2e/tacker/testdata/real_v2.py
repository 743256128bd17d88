"""Takes a VNF through a change of its package with Tacker's own v2 driver, whose source is in PYTHONPATH. Heat and the NFVO are stood in for.
Prints as JSON what Heat was sent, by the change and by a rollback, and the VNFD that the instance has after the change: {"sent", "vnfd", "error"}.

Standard input is {"instance", "request", "folders", "nfv"}: the VnfInstance, the ChangeCurrentVnfPkgRequest, where the packages are by their
VNFDs, and the parameter of the stack as Heat has it.
"""

import json
import sys
import types
import uuid

from tacker.sol_refactored import objects
from tacker.sol_refactored.common import exceptions
from tacker.sol_refactored.common import vnfd_utils
from tacker.sol_refactored.conductor import vnflcm_driver_v2
from tacker.sol_refactored.controller import vnflcm_v2
from tacker.sol_refactored.infra_drivers.openstack import heat_utils
from tacker.sol_refactored.infra_drivers.openstack import openstack

VIM = "ETSINFV.OPENSTACK_KEYSTONE.V_3"
said, sent = json.load(sys.stdin), []


class Heat:
    def __init__(self, vim):
        pass

    def get_parameters(self, stack):
        return {"nfv": json.dumps(said["nfv"])}

    def update_stack(self, stack, fields, wait=True):
        sent.append(fields)


objects.register_all()
heat_utils.HeatClient = Heat
openstack.Openstack._make_instantiated_vnf_info = lambda *args, **keywords: None  # asks Heat for the resources
vnflcm_driver_v2.lcmocc_utils.update_lcmocc = lambda *args: None  # says what has changed in them
driver = vnflcm_driver_v2.VnfLcmDriverV2()
driver.nfvo_client = types.SimpleNamespace(get_vnf_package_info_vnfd=lambda *args: types.SimpleNamespace(
    vnfProvider="p", vnfProductName="p", vnfSoftwareVersion="1", vnfdVersion="1"))

request, error = said["request"], ""
instance = objects.VnfInstanceV2.from_dict(said["instance"])
vnflcm_v2.VnfLcmControllerV2._check_vdu_params(None, instance, request["additionalParams"]["vdu_params"], VIM, None, None)
occurrence = objects.VnfLcmOpOccV2(id=str(uuid.uuid4()), operation="CHANGE_VNFPKG",
                                   operationParams=objects.ChangeCurrentVnfPkgRequest.from_dict(request))
grant_request = objects.GrantRequestV1(vnfInstanceId=instance.id, vnfLcmOpOccId=occurrence.id, vnfdId=instance.vnfdId, operation="CHANGE_VNFPKG")


def package(vnfd):
    read = vnfd_utils.Vnfd(vnfd)
    read.init_from_csar_dir(said["folders"][vnfd])
    return read


vnfd = package(request["vnfdId"])
driver.change_vnfpkg_grant(grant_request, occurrence.operationParams, instance, vnfd)
try:
    grant = objects.GrantV1(id=str(uuid.uuid4()))
    driver.process(None, occurrence, instance, grant_request, grant, vnfd, {})
    before = objects.VnfInstanceV2.from_dict(said["instance"])
    driver.rollback(None, occurrence, before, grant_request, grant, package(before.vnfdId), {})
except exceptions.SolException as refused:
    error = str(refused.detail)
json.dump({"sent": sent, "vnfd": instance.vnfdId, "error": error}, sys.stdout)
