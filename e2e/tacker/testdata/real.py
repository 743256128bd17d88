"""Runs hooks with Tacker itself, whose source is in PYTHONPATH: its base class, its exceptions,
its objects, and its database in SQLite. Prints what Tacker knows then, as JSON.

real.py PACKAGE BODY.json INSTANCE
"""

import importlib.metadata
import inspect
import json
import sys
import uuid

from oslo_config import cfg
from oslo_db import options as db_options
from sqlalchemy import ForeignKeyConstraint

cfg.CONF([], project="tacker")
db_options.set_defaults(cfg.CONF, connection="sqlite://")

from tacker import context as tacker_context  # noqa: E402
from tacker import objects  # noqa: E402
from tacker.common import exceptions  # noqa: E402
from tacker.db import api as db_api  # noqa: E402
from tacker.db.db_sqlalchemy import models  # noqa: E402
from tacker.vnflcm import utils as vnflcm_utils  # noqa: E402
from tacker.vnfm.mgmt_drivers import vnflcm_abstract_driver  # noqa: E402

objects.register_all()
from oslo_utils import timeutils  # noqa: E402

package, body_file, instance_id = sys.argv[1:]
context = tacker_context.get_admin_context()
table = models.VnfLcmOpOccs.__table__  # alone, without the tables that it refers to
table.constraints -= {each for each in table.constraints if isinstance(each, ForeignKeyConstraint)}
table.create(db_api.get_engine())
with open(body_file) as file:
    body = json.load(file)


def occurrence(state, operation, params):
    objects.VnfLcmOpOcc(
        context=context, id=str(uuid.uuid4()), operation_state=state, start_time=timeutils.utcnow(), state_entered_time=timeutils.utcnow(),
        vnf_instance_id=instance_id, operation=operation, is_automatic_invocation=False, is_cancel_pending=False,
        operation_params=json.dumps(params), error_point=0, tenant_id="t").create()


occurrence("FAILED", "TERMINATE", {})  # an older one, which the database returns first
occurrence("PROCESSING", "INSTANTIATE", body)

point, = [each for each in importlib.metadata.distribution("nodehitch-tacker").entry_points if each.group == "tacker.tacker.mgmt.drivers"]
driver = point.load()()
vnflcm_utils.get_vnf_package_path = lambda context, vnfd: package  # of the VNF package's own tables

request = objects.InstantiateVnfRequest.obj_from_primitive({"flavour_id": "simple", "additional_params": body["additionalParams"]}, context=context)
info = objects.InstantiatedVnfInfo(flavour_id="simple", vnf_instance_id=instance_id, vnfc_resource_info=[],
                                   additional_params=request.additional_params)
instance = objects.VnfInstance(context=context, id=instance_id, vnfd_id=str(uuid.uuid4()), vim_connection_info=[], instantiated_vnf_info=info)
keywords = dict(context=context, vnf_instance=instance, grant=None, grant_request=None)
raised = None
driver.instantiate_start(instantiate_vnf_request=request, **keywords)
found = {each.operation: each for each in objects.VnfLcmOpOccList.get_by_filters(
    context, read_deleted="no", filters={"model": "VnfLcmOpOccs", "field": "vnf_instance_id", "value": instance_id, "op": "=="}).objects}
try:
    driver.heal_start(heal_vnf_request=objects.HealVnfRequest(vnfc_instance_id=[]), **keywords)
except exceptions.MgmtDriverOtherError as error:
    raised = str(error)
print(json.dumps({
    "base": isinstance(driver, vnflcm_abstract_driver.VnflcmMgmtAbstractDriver),
    "file": inspect.getfile(type(driver)),
    "request": dict(request.additional_params),
    "kept": json.loads(found["INSTANTIATE"].operation_params)["additionalParams"],
    "other": json.loads(found["TERMINATE"].operation_params),
    "raised": raised,
    "shared": info.additional_params is request.additional_params,
}))
