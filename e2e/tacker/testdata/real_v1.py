"""Takes stacks of Tacker's v1 API through heals and scale rollbacks, with the UserData class of a VNF package, Tacker's own OpenStack
driver, conductor and database in SQLite. Stood in for are Heat, which records what it is given, and Tacker's reading of TOSCA.

real_v1.py INSTANCE: INSTANCE is one that the controller has. HOME has Tacker's configuration. Prints a list of {"case", "faults",
"bytes"} as JSON: the faults of each operation, and how long what Tacker keeps is after each.
"""

import datetime
import json
import logging
import os
import sys
import types
import uuid

from nodehitch.tacker.hooks import Hook
from nodehitch.tacker.shim import nodehitch_mgmt

from sqlalchemy.orm import close_all_sessions
import yaml
from tacker import context as tacker_context
from tacker import manager
from tacker import objects
from tacker.common import exceptions
from tacker.conductor import conductor_server
from tacker.db import api as db_api
from tacker.db import model_base
from tacker.db.db_sqlalchemy import models
import tacker.db.migration.models.head  # noqa: F401  # all models
from tacker.db.nfvo import nfvo_db
from tacker.db.vnfm import vnfm_db
from tacker.vnflcm import utils as vnflcm_utils
from tacker.vnfm.infra_drivers.openstack import openstack

printed, sys.stdout = sys.stdout, sys.stderr  # Tacker prints too
logging.disable(logging.CRITICAL)
conductor_server.init([])
engine = db_api.get_engine()
model_base.BASE.metadata.create_all(engine)
with engine.connect() as connection:  # one may read while another writes
    connection.connection.cursor().execute("PRAGMA journal_mode=WAL")
objects.register_all()
from oslo_utils import timeutils  # noqa: E402

INSTANCE, PROJECT, VIM = sys.argv[1], "tenant", str(uuid.uuid4())
with engine.begin() as connection:
    table = nfvo_db.Vim.__table__
    status = {"status": "REACHABLE"} if "status" in table.c else {}  # until 2023.1
    connection.execute(table.insert().values(id=VIM, type="openstack", tenant_id=PROJECT, name="n", deleted_at=datetime.datetime.min, **status))
TEXT = "#cloud-config\nruncmd:\n- echo \"it's\" 'a \\ \\n' é\n"
RESOURCES = {
    "VDU1": {"type": "OS::Nova::Server", "properties": {"flavor": {"get_param": ["nfv", "VDU", "VDU1", "flavor"]},
                                                        "image": {"get_param": ["nfv", "VDU", "VDU1", "image"]}}},
    "CP1": {"type": "OS::Neutron::Port", "properties": {"network": {"get_param": ["nfv", "CP", "CP1", "network"]}}},
}
COMMON = {name: {"type": "string"} for name in ("nodehitch_pin", "nodehitch_join_token", "worker_user_data", "given_empty")}
COMMON.update(nfv={"type": "json"}, nodehitch_controller_urls={"type": "comma_delimited_list"}, wait={"type": "boolean", "default": True})
AGENT = {"type": "nodehitch-agent.yaml", "properties": {}}
HOTS = {
    "new": {"parameters": {**COMMON, "nodehitch_root_certificate_lines": {"type": "comma_delimited_list"}}, "resources": RESOURCES},
    "old": {"parameters": {**COMMON, "nodehitch_root_certificate": {"type": "string"}}, "resources": {**RESOURCES, "agent": AGENT}},
}
VNFD = {"topology_template": {"node_templates": {"VDU1": {
    "type": "tosca.nodes.nfv.Vdu.Compute",
    "properties": {"name": "VDU1", "sw_image_data": {"name": "debian"}},
    "capabilities": {"virtual_compute": {"properties": {"requested_additional_capabilities": {
        "properties": {"requested_additional_capability_name": "m1.small"}}}}}}}}}


class Heat:
    """Records the parameters of each call."""

    given = []

    def __init__(self, *args, **kwargs):
        pass

    def find_stack(self, **kwargs):
        return None

    def create(self, fields):
        self.given.append(json.loads(json.dumps(fields["parameters"])))
        return {"stack": {"id": "stack"}}

    def update(self, stack_id, **kwargs):
        self.given.append(json.loads(json.dumps(kwargs["parameters"])))

    def get(self, stack_id):
        return types.SimpleNamespace(stack_status="UPDATE_COMPLETE")

    def resource_mark_unhealthy(self, **kwargs):
        pass

    def resource_get_list(self, stack_id, nested_depth=0):
        return []


class Plugin(vnfm_db.VNFMPluginDb):
    def __init__(self):
        pass


Plugin.__abstractmethods__ = frozenset()


openstack.hc.HeatClient = Heat
manager.TackerManager.get_service_plugins = classmethod(lambda cls: {"VNFM": Plugin()})
vnflcm_utils.get_vnfd_dict = vnflcm_utils._get_vnfd_dict = lambda *args: VNFD
infra = openstack.OpenStack()
infra._get_stack_resources = lambda *args: {}
vim = types.SimpleNamespace(access_info={}, vim_type="openstack")
join = Hook(INSTANCE).join_parameters()


def context():
    """A new one. Tacker leaves transactions of the last one open, and SQLite has one writer."""
    close_all_sessions()
    return tacker_context.Context(user_id="user", project_id=PROJECT, is_admin=False)


class VNF:
    """A VNF instance as Tacker has it."""

    def __init__(self, hot, user_data):
        close_all_sessions()
        with engine.begin() as c:
            def add(model, **values):
                if model in (vnfm_db.VNF, vnfm_db.VNFD):
                    values["deleted_at"] = datetime.datetime.min  # Tacker's word for: is not deleted
                c.execute(model.__table__.insert().values(**values))
            for model in (models.VnfLcmOpOccs, vnfm_db.VNFAttribute, vnfm_db.VNF, vnfm_db.VNFDAttribute, vnfm_db.VNFD, models.VnfPackageVnfd,
                          models.VnfPackage, models.VnfInstance):
                c.execute(model.__table__.delete())
            package, self.vnfd = str(uuid.uuid4()), str(uuid.uuid4())
            add(models.VnfPackage, id=package, tenant_id=PROJECT, onboarding_state="ONBOARDED", operational_state="ENABLED", usage_state="IN_USE", size=1)
            add(models.VnfPackageVnfd, id=str(uuid.uuid4()), package_uuid=package, vnfd_id=self.vnfd, vnf_provider="p", vnf_product_name="p",
                vnf_software_version="1", vnfd_version="1")
            add(models.VnfInstance, id=INSTANCE, vnf_instance_name="n", instantiation_state="INSTANTIATED", vnfd_id=self.vnfd, vnf_provider="p",
                vnf_product_name="p", vnf_software_version="1", vnfd_version="1", tenant_id=PROJECT, vnf_metadata={}, vnf_pkg_id=package)
            add(vnfm_db.VNFD, id=self.vnfd, tenant_id=PROJECT, name="n", mgmt_driver="noop")
            add(vnfm_db.VNFDAttribute, id=str(uuid.uuid4()), vnfd_id=self.vnfd, key="vnfd_simple", value=yaml.safe_dump(VNFD))
            add(vnfm_db.VNF, id=INSTANCE, tenant_id=PROJECT, vnfd_id=self.vnfd, name="n", status="ACTIVE", vim_id=VIM, placement_attr={})
            add(models.VnfLcmOpOccs, id=str(uuid.uuid4()), operation_state="PROCESSING", state_entered_time=timeutils.utcnow(),
                start_time=timeutils.utcnow(), vnf_instance_id=INSTANCE, operation="HEAL", is_automatic_invocation=False,
                is_cancel_pending=False, operation_params="{}", error_point=0, tenant_id=PROJECT)
        self.folder = os.path.join(vnflcm_utils.CONF.vnf_package.vnf_package_csar_path, package)
        os.makedirs(os.path.join(self.folder, "BaseHOT/simple"))
        os.makedirs(os.path.join(self.folder, "UserData"))
        with open(os.path.join(self.folder, "BaseHOT/simple/simple.yaml"), "w") as file:
            yaml.safe_dump({"heat_template_version": "2018-08-31", **HOTS[hot]}, file)
        shim = os.path.join(os.path.dirname(nodehitch_mgmt.__file__), "k8s_cluster_user_data.py")
        os.symlink(shim, os.path.join(self.folder, "UserData/k8s_cluster_user_data.py"))
        self.additional = {"lcm-operation-user-data": "./UserData/k8s_cluster_user_data.py", "lcm-operation-user-data-class": "KubernetesClusterUserData",
                           "worker_user_data": user_data, "given_empty": "", "wait": False, **join}
        self.expected = {name: self.additional[name] for name in HOTS[hot]["parameters"] if name != "nfv"}
        # Another controller's, as after a restore: an operation has what the controller says now.
        self.info = types.SimpleNamespace(
            flavour_id="simple", instance_id="stack", additional_params={**self.additional, "nodehitch_join_token": "old"},
            vnfc_resource_info=[types.SimpleNamespace(id="vnfc1", vdu_id="VDU1", storage_resource_ids=[], compute_resource=types.SimpleNamespace(
                resource_id="server", vim_level_resource_type="OS::Nova::Server"))], virtual_storage_resource_info=[], scale_status=[])
        self.instance = types.SimpleNamespace(id=INSTANCE, vnfd_id=self.vnfd, tenant_id=PROJECT, instantiated_vnf_info=self.info,
                                              vim_connection_info=[], vnf_metadata={})
        self.faults, self.bytes = [], []

    def dict(self):
        return {**Plugin().get_vnf(context(), INSTANCE), "res_num": 1}

    def keep(self, text):
        close_all_sessions()
        with engine.begin() as c:
            t = vnfm_db.VNFAttribute.__table__
            c.execute(t.delete())
            c.execute(t.insert().values(id=str(uuid.uuid4()), vnf_id=INSTANCE, key="stack_param", value=text))

    def kept(self):
        with engine.begin() as c:
            return c.execute(vnfm_db.VNFAttribute.__table__.select()).fetchone().value

    def looks(self, what):
        given = Heat.given.pop()
        self.faults += ["%s: Heat was given %s %r, want %r" % (what, name, given.get(name), want) for name, want in self.expected.items() if given.get(name) != want]
        if given["nfv"]["CP"]["CP1"]["network"] != "net" or given["nfv"]["VDU"]["VDU1"]["image"] != "debian":
            self.faults.append("%s: Heat was given nfv %r" % (what, given["nfv"]))
        self.bytes.append(len(self.kept().encode()))

    def instantiate(self, heal=False):
        """Also the second half of a heal of the entire VNF."""
        vnf = self.dict()
        request = types.SimpleNamespace(
            flavour_id="simple", additional_params=self.additional,
            ext_virtual_links=[types.SimpleNamespace(resource_id="net", ext_cps=[types.SimpleNamespace(cpd_id="CP1")])])
        infra.create(None, context(), vnf, {}, self.folder, request, None, self.instance)
        if heal:
            self.conduct(vnf, [])
        else:
            self.keep(vnf["attributes"]["stack_param"])
        self.looks("heal of all" if heal else "instantiate")

    def conduct(self, vnf, vnfcs):
        conductor_server.Conductor._update_vnf_attributes_stack_param(
            None, context(), vnf, INSTANCE, types.SimpleNamespace(vnfc_instance_id=vnfcs), self.info)

    def hook(self, name, **request):
        """How a hook of the driver ends. The controller has no nodes of the instance, so it refuses after all else."""
        try:
            driver = nodehitch_mgmt.NodehitchMgmtDriver()
            getattr(driver, name)(context=context(), vnf_instance=self.instance, **request)
        except exceptions.MgmtDriverOtherError as error:
            return str(error)
        return ""

    def heal(self):
        vnf = self.dict()
        request = types.SimpleNamespace(vnfc_instance_id=["vnfc1"], cause=None, additional_params={})
        error = self.hook("heal_start", heal_vnf_request=request, grant=None, grant_request=None)
        if "retry the operation" in error:
            return error
        infra.heal_vnf(context(), self.instance, vim, request)
        self.conduct(vnf, ["vnfc1"])
        self.looks("heal")

    def scale_rollback(self):
        vnf = self.dict()
        infra.scale_in_reverse(context(), None, {}, vnf, types.SimpleNamespace(aspect_id="a"), None, ["one"], None, self.instance)
        self.keep(vnf["attributes"]["stack_param"])
        self.looks("rollback of a scale-out")

    def modify(self):
        self.hook("modify_information_start", modify_vnf_request=None)

    def damage(self, rounds):
        """As a driver of before has left it: Tacker kept every text as it was, and read it this often."""
        text = str({**self.expected, "nfv": {"VDU": {"VDU1": {"flavor": "m1.small", "image": "debian"}}, "CP": {"CP1": {"network": "net"}}}})
        for _ in range(rounds):
            text = str(yaml.safe_load(text))
        self.keep(text)


def report(case, vnf):
    return {"case": case, "faults": vnf.faults, "bytes": vnf.bytes}


def lives():
    for hot, user_data in (("new", "a-config-id"), ("old", "a-config-id"), ("old", TEXT)):
        vnf = VNF(hot, user_data)
        vnf.instantiate()
        for _ in range(3):
            vnf.heal()
        vnf.instantiate(heal=True)
        vnf.heal()
        vnf.scale_rollback()
        for _ in range(3):
            vnf.heal()
        if len(set(vnf.bytes)) != 1:
            vnf.faults.append("what Tacker keeps has changed")
        yield report("%s package, user_data %r" % (hot, user_data), vnf)


def damaged():
    plain = "#!/bin/sh\necho 'x'\n"
    for rounds in range(4):
        vnf = VNF("old", plain)
        vnf.damage(rounds)
        for _ in range(3):
            vnf.heal()
        if not vnf.bytes[0] < vnf.bytes[1] < vnf.bytes[2]:
            vnf.faults.append("what Tacker keeps does not grow: the case shows nothing")
        vnf.modify()
        for _ in range(3):
            vnf.heal()
        if len(set(vnf.bytes[3:])) != 1:
            vnf.faults.append("after a modification what Tacker keeps has changed")
        yield report("read %d times" % rounds, vnf)
        vnf.damage(rounds)
        vnf.scale_rollback()
        vnf.heal()
        if len(set(vnf.bytes[-2:])) != 1:
            vnf.faults.append("after a rollback what Tacker keeps has changed")
    for case, user_data, rounds in (("no YAML", TEXT, 0), ("too long", plain, 12)):
        vnf = VNF("old", user_data)
        vnf.damage(rounds)
        error = vnf.heal()
        if not error or vnf.bytes:
            vnf.faults.append("the first heal was not refused: %r" % error)
        for _ in range(3):
            error = vnf.heal()
            if error:
                vnf.faults.append(error)
        if len(set(vnf.bytes)) != 1:
            vnf.faults.append("what Tacker keeps has changed")
        yield report(case, vnf)


def refusals():
    vnf = VNF("old", "a-config-id")
    request = types.SimpleNamespace(ext_virtual_links=[])
    error = vnf.hook("change_external_connectivity_start", change_ext_conn_request=request, grant=None, grant_request=None)
    if "its resources agent are templates outside of groups" not in error or "nodehitch_root_certificate have texts" not in error:
        vnf.faults.append("a change of the external connectivity of an old package: %r" % error)
    given = {**vnf.additional, "worker_user_data": TEXT, "undeclared": TEXT}
    error = vnf.hook("instantiate_start", instantiate_vnf_request=types.SimpleNamespace(flavour_id="simple", additional_params=given),
                     grant=None, grant_request=None)
    want = "the request is not valid: /additionalParams/worker_user_data: holds line breaks and backslashes and quotes, which Tacker's v1 API alters"
    if want not in error or error.count("/additionalParams/") != 1:
        vnf.faults.append("text in user_data: %r" % error)
    yield report("refused", vnf)
    vnf = VNF("new", "a-config-id")
    error = vnf.hook("change_external_connectivity_start", change_ext_conn_request=request, grant=None, grant_request=None)
    if "Tacker's v1 API" in error:
        vnf.faults.append("a change of the external connectivity of a new package: %r" % error)
    yield report("not refused", vnf)


json.dump([*lives(), *damaged(), *refusals()], printed)
