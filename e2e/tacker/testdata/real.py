"""Runs hooks with Tacker itself, whose source is in PYTHONPATH: its base class, its exceptions,
its objects, and its database in SQLite. Prints what Tacker knows then, as JSON.

real.py PACKAGE VNFD BODY.json INSTANCE: PACKAGE is the VNF package's folder, in the one that Tacker's configuration names. HOME has that.
"""

import importlib.metadata
import inspect
import json
import os
import sys
import uuid

from tacker import context as tacker_context
from tacker import objects
from tacker.common import exceptions
from tacker.conductor import conductor_server
from tacker.db import api as db_api
from tacker.db import model_base
from tacker.db.db_sqlalchemy import models
import tacker.db.migration.models.head  # noqa: F401  # all models
from tacker.vnfm.mgmt_drivers import vnflcm_abstract_driver

printed, sys.stdout = sys.stdout, sys.stderr  # Tacker prints too
conductor_server.init([])
engine = db_api.get_engine()
model_base.BASE.metadata.create_all(engine)
with engine.connect() as connection:  # one may read while another writes
    connection.connection.cursor().execute("PRAGMA journal_mode=WAL")
objects.register_all()
from oslo_utils import timeutils  # noqa: E402

PROJECT = "tenant"
folder, vnfd_id, body_file, instance_id = sys.argv[1:]
context = tacker_context.get_admin_context()
with open(body_file) as file:
    body = json.load(file)
package = os.path.basename(folder)
of_vnfd = {"vnfd_id": vnfd_id, "vnf_provider": "p", "vnf_product_name": "p", "vnf_software_version": "1", "vnfd_version": "1"}
with engine.begin() as connection:
    for model, values in (
            (models.VnfPackage, {"id": package, "onboarding_state": "ONBOARDED", "operational_state": "ENABLED", "usage_state": "IN_USE", "size": 1,
                                 "tenant_id": PROJECT}),
            (models.VnfPackageVnfd, {"id": str(uuid.uuid4()), "package_uuid": package, **of_vnfd}),
            (models.VnfInstance, {"id": instance_id, "vnf_instance_name": "n", "instantiation_state": "NOT_INSTANTIATED", "tenant_id": PROJECT,
                                  "vnf_metadata": {}, "vnf_pkg_id": package, **of_vnfd})):
        connection.execute(model.__table__.insert().values(**values))


def occurrence(state, operation, params):
    objects.VnfLcmOpOcc(
        context=context, id=str(uuid.uuid4()), operation_state=state, start_time=timeutils.utcnow(), state_entered_time=timeutils.utcnow(),
        vnf_instance_id=instance_id, operation=operation, is_automatic_invocation=False, is_cancel_pending=False,
        operation_params=json.dumps(params), error_point=0, tenant_id=PROJECT).create()


occurrence("FAILED", "TERMINATE", {})  # an older one, which the database returns first
occurrence("PROCESSING", "INSTANTIATE", body)

point, = [each for each in importlib.metadata.distribution("nodehitch-tacker").entry_points if each.group == "tacker.tacker.mgmt.drivers"]
driver = point.load()()

request = objects.InstantiateVnfRequest.obj_from_primitive({"flavour_id": "simple", "additional_params": body["additionalParams"]}, context=context)
info = objects.InstantiatedVnfInfo(flavour_id="simple", vnf_instance_id=instance_id, vnfc_resource_info=[],
                                   additional_params=request.additional_params)
instance = objects.VnfInstance(context=context, id=instance_id, vnfd_id=vnfd_id, tenant_id=PROJECT, vim_connection_info=[], instantiated_vnf_info=info)
keywords = dict(context=context, vnf_instance=instance, grant=None, grant_request=None)
raised = None
driver.instantiate_start(instantiate_vnf_request=request, **keywords)
found = {each.operation: each for each in objects.VnfLcmOpOccList.get_by_filters(
    context, read_deleted="no", filters={"model": "VnfLcmOpOccs", "field": "vnf_instance_id", "value": instance_id, "op": "=="}).objects}
try:
    driver.heal_start(heal_vnf_request=objects.HealVnfRequest(vnfc_instance_id=[]), **keywords)
except exceptions.MgmtDriverOtherError as error:
    raised = str(error)
json.dump({
    "base": isinstance(driver, vnflcm_abstract_driver.VnflcmMgmtAbstractDriver),
    "file": inspect.getfile(type(driver)),
    "request": dict(request.additional_params),
    "kept": json.loads(found["INSTANTIATE"].operation_params)["additionalParams"],
    "other": json.loads(found["TERMINATE"].operation_params),
    "raised": raised,
    "shared": info.additional_params is request.additional_params,
}, printed)
