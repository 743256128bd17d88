"""Two projects have VNF packages with one VNFD id, and with content of which one's contains the other's, in Tacker's own database. Prints
as JSON what the driver has taken for a VNF of each project, in RUNS runs: {"files", "vims", "refused", "faults"}. If an NFVO outside has
the packages, one with the VNFD id of another project's VNF is taken for nothing: "outside" counts that.

real_whose.py RUNS: HOME has Tacker's configuration.
"""

import json
import logging
import os
import sys
import types
import uuid

from nodehitch import client
from nodehitch.tacker import driver, tacker_v2, vim, vim_v2

from sqlalchemy import UniqueConstraint
from tacker import context as tacker_context
from tacker.conductor import conductor_server
from tacker.db import api as db_api
from tacker.db import model_base
from tacker.db.db_sqlalchemy import models
import tacker.db.migration.models.head  # noqa: F401  # all models
from tacker.sol_refactored.common import config
from tacker.vnflcm import utils as vnflcm_utils

logging.disable(logging.CRITICAL)
conductor_server.init([])
engine = db_api.get_engine()
vnfds = models.VnfPackageVnfd.__table__  # as it is to be: unique for each project only
vnfds.constraints -= {each for each in vnfds.constraints if isinstance(each, UniqueConstraint)}
model_base.BASE.metadata.create_all(engine)
registered = []
vim.register = lambda context, project, instance, *args: registered.append(project)
packages = []  # with the shared id
count = {"files": 0, "vims": 0, "refused": 0, "outside": 0, "faults": []}


def package(project, vnfd, more):
    name = str(uuid.uuid4())
    folder = os.path.join(vnflcm_utils.CONF.vnf_package.vnf_package_csar_path, name)
    os.makedirs(os.path.join(folder, "Definitions"))
    for file in ["vnfd.yaml"] + more:
        with open(os.path.join(folder, "Definitions", file), "w") as out:
            out.write("descriptor_id: " + vnfd)
    with engine.begin() as c:
        c.execute(models.VnfPackage.__table__.insert().values(
            id=name, tenant_id=project, onboarding_state="ONBOARDED", operational_state="ENABLED", usage_state="IN_USE", size=1))
        c.execute(vnfds.insert().values(id=str(uuid.uuid4()), package_uuid=name, vnfd_id=vnfd, vnf_provider="p", vnf_product_name="p",
                                        vnf_software_version="1", vnfd_version="1"))
    return folder


def take(kind, call, wanted):
    try:
        taken = call()
    except client.Error as error:
        count["refused"] += 1
        if "2 VNF packages have its VNFD" not in str(error) or any(each in str(error) for each in packages):
            count["faults"].append("%s: %s" % (kind, error))
        return
    count[kind] += 1
    if taken != wanted:
        count["faults"].append("%s: took %s, want %s" % (kind, taken, wanted))


def register(instance):
    del registered[:]
    vim_v2.register(instance, "name", {})
    return registered[:]


for run in range(int(sys.argv[1])):
    shared, projects = str(uuid.uuid4()), ["a", "b"] if run % 2 else ["b", "a"]
    folders = {each: package(each, shared, ["more.yaml"] if each == "a" else []) for each in projects}
    packages[:] = [os.path.basename(each) for each in folders.values()]
    own = {each: str(uuid.uuid4()) for each in projects}
    of_own = {each: package(each, own[each], ["more.yaml"] if each == "b" else []) for each in projects}
    for project in projects:
        instance = types.SimpleNamespace(id="i", vnfd_id=shared, tenant_id=project)
        for is_admin in (False, True):
            context = tacker_context.Context(user_id="user", project_id="administrators" if is_admin else project, is_admin=is_admin)
            take("files", lambda: driver._package(context, instance), folders[project])
        take("files", lambda: tacker_v2.package_folder("i", shared), folders[project])
        take("files", lambda: tacker_v2.package_folder("i", own[project]), of_own[project])
        take("vims", lambda: register({"id": "i", "vnfdId": shared}), [project])
        take("vims", lambda: register({"id": "i", "vnfdId": own[project]}), [project])
        config.CONF.set_override("use_external_nfvo", True, "v2_nfvo")
        taken = [tacker_v2.package_folder("i", own[project]), register({"id": "i", "vnfdId": own[project]})]
        config.CONF.clear_override("use_external_nfvo", "v2_nfvo")
        count["outside"] += taken == [None, []]
json.dump(count, sys.stdout)
