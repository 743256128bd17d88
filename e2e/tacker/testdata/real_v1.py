"""Takes stacks of Tacker's v1 API through heals and scale rollbacks, with the UserData class of a VNF package, Tacker's own OpenStack
driver, conductor and database in SQLite, and through changes of connectivity after scalings. Stood in for are Heat, which records what
it is given, and Tacker's reading of TOSCA.

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

from nodehitch import client
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
GROUPS = {"master_instance": 3, "worker_instance": 2}  # and how large they are at first


def group(size):
    return {"type": "OS::Heat::AutoScalingGroup", "properties": {"min_size": 1, "max_size": 9, "desired_capacity": {"get_param": size},
                                                                 "resource": {"type": "member.yaml", "properties": {}}}}


def policy(kind, target, **properties):
    return {target + kind: {"type": "tosca.policies.nfv." + kind, "targets": [target], "properties": properties}}


AGENT = {"type": "nodehitch-agent.yaml", "properties": {}}
HOTS = {
    "new": {"parameters": {**COMMON, "nodehitch_root_certificate_lines": {"type": "comma_delimited_list"},
                           **{name + "_desired": {"type": "number", "default": size} for name, size in GROUPS.items()}},
            "resources": {**RESOURCES, **{name: group(name + "_desired") for name in GROUPS}}},
    "old": {"parameters": {**COMMON, "nodehitch_root_certificate": {"type": "string"}}, "resources": {**RESOURCES, "agent": AGENT}},
}
VNFD = {"topology_template": {"node_templates": {"VDU1": {
    "type": "tosca.nodes.nfv.Vdu.Compute",
    "properties": {"name": "VDU1", "sw_image_data": {"name": "debian"}},
    "capabilities": {"virtual_compute": {"properties": {"requested_additional_capabilities": {
        "properties": {"requested_additional_capability_name": "m1.small"}}}}}}},
    "policies": [each for name, size in GROUPS.items() for each in (
        policy("VduInitialDelta", name + "_vdu", initial_delta={"number_of_instances": size}),
        policy("VduScalingAspectDeltas", name + "_vdu", aspect=name, deltas={"delta_1": {"number_of_instances": 1}}))] + [
        policy("ScalingAspects", "all", aspects={name: {"max_scale_level": 5} for name in GROUPS}),
        policy("InstantiationLevels", "all", default_level="one",
               levels={"one": {"scale_info": {name: {"scale_level": 0} for name in GROUPS}}})]}}


class Heat:
    """Records the parameters of each call, and has what they make of the stack."""

    given, template, parameters = [], {}, {}

    def __init__(self, *args, **kwargs):
        self.stacks = types.SimpleNamespace(template=lambda stack_id: json.loads(json.dumps(Heat.template)))

    @classmethod
    def sizes(cls):
        """Each update makes each group as large as its property says."""
        of = {name: cls.template["resources"][name]["properties"]["desired_capacity"] for name in GROUPS}
        return {name: cls.parameters.get(size["get_param"], GROUPS[name]) if isinstance(size, dict) else size for name, size in of.items()}

    def _has(self, parameters, template=None, existing=False, **kwargs):
        self.given.append(json.loads(json.dumps(parameters)))
        Heat.parameters = {**(Heat.parameters if existing else {}), **self.given[-1]}
        Heat.template = json.loads(json.dumps(yaml.safe_load(template), default=str)) if template else Heat.template

    def find_stack(self, **kwargs):
        return None

    def create(self, fields):
        self._has(**fields)
        return {"stack": {"id": "stack"}}

    def update(self, stack_id, **kwargs):
        self._has(**kwargs)

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


class Instance(types.SimpleNamespace):
    """Tacker's object has its fields by both ways."""

    def __getitem__(self, name):
        return getattr(self, name)


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
        self.occurrence("HEAL", "PROCESSING")
        self.folder = os.path.join(vnflcm_utils.CONF.vnf_package.vnf_package_csar_path, package)
        os.makedirs(os.path.join(self.folder, "BaseHOT/simple"))
        os.makedirs(os.path.join(self.folder, "UserData"))
        with open(os.path.join(self.folder, "BaseHOT/simple/simple.yaml"), "w") as file:
            yaml.safe_dump({"heat_template_version": "2018-08-31", **HOTS[hot]}, file)
        shim = os.path.join(os.path.dirname(nodehitch_mgmt.__file__), "k8s_cluster_user_data.py")
        os.symlink(shim, os.path.join(self.folder, "UserData/k8s_cluster_user_data.py"))
        self.additional = {"lcm-operation-user-data": "./UserData/k8s_cluster_user_data.py", "lcm-operation-user-data-class": "KubernetesClusterUserData",
                           "worker_user_data": user_data, "given_empty": "", "wait": False, **join}
        self.expected = {name: self.additional[name] for name in HOTS[hot]["parameters"] if name in self.additional}
        # Another controller's, as after a restore: an operation has what the controller says now.
        self.info = types.SimpleNamespace(
            flavour_id="simple", instance_id="stack", additional_params={**self.additional, "nodehitch_join_token": "old"},
            vnfc_resource_info=[types.SimpleNamespace(id="vnfc1", vdu_id="VDU1", storage_resource_ids=[], compute_resource=types.SimpleNamespace(
                resource_id="server", vim_level_resource_type="OS::Nova::Server"))], virtual_storage_resource_info=[], scale_status=[])
        self.instance = Instance(id=INSTANCE, vnfd_id=self.vnfd, tenant_id=PROJECT, instantiated_vnf_info=self.info,
                                 vim_connection_info=[], vnf_metadata={})
        self.faults, self.bytes = [], []

    def occurrence(self, operation, state="COMPLETED", **params):
        now = timeutils.utcnow()
        with engine.begin() as c:
            c.execute(models.VnfLcmOpOccs.__table__.insert().values(
                id=str(uuid.uuid4()), operation_state=state, state_entered_time=now, start_time=now, vnf_instance_id=INSTANCE, operation=operation,
                is_automatic_invocation=False, is_cancel_pending=False, operation_params=json.dumps(params), error_point=0, tenant_id=PROJECT))

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

    def scale_out(self, aspect):
        """By Heat's policy. Tacker sends Heat neither template nor parameters."""
        levels = {each.aspect_id: each.scale_level for each in self.info.scale_status}
        levels[aspect] = levels.get(aspect, 0) + 1
        self.info.scale_status = [types.SimpleNamespace(aspect_id=name, scale_level=level) for name, level in levels.items()]
        self.occurrence("SCALE", aspect_id=aspect)

    def scale_rollback(self, aspect="a", size=1):
        vnf = {**self.dict(), "res_num": size}
        infra.scale_in_reverse(context(), None, {}, vnf, types.SimpleNamespace(aspect_id=aspect), None, ["one"], None, self.instance)
        self.keep(vnf["attributes"]["stack_param"])
        self.looks("rollback of a scale-out")

    def sized(self, what, **want):
        if Heat.sizes() != {**GROUPS, **want}:
            self.faults.append("%s: Heat makes the groups %r large" % (what, Heat.sizes()))

    def connect(self):
        """Tacker's part of a change of the external connectivity, and what the START says before it."""
        cp = types.SimpleNamespace(cpd_id="CP1", cp_config=[types.SimpleNamespace(cp_protocol_data=[types.SimpleNamespace(
            ip_over_ethernet=types.SimpleNamespace(ip_addresses=[]))])])
        request = types.SimpleNamespace(ext_virtual_links=[types.SimpleNamespace(resource_id="net", ext_cps=[cp])])
        error = self.hook("change_external_connectivity_start", change_ext_conn_request=request, grant=None, grant_request=None)
        infra.change_ext_conn_vnf(context(), self.instance, self.dict(), vim, request)
        self.looks("change of connectivity")
        return error

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


def scalings():
    vnf = VNF("new", "a-config-id")
    vnf.instantiate()
    vnf.scale_out("worker_instance")
    error = vnf.connect()
    if "would send Heat the size that worker_instance had before scaling" not in error:
        vnf.faults.append("a change of the external connectivity after a scale-out: %r" % error)
    vnf.sized("what was refused")  # the worker would be lost
    vnf.heal()
    vnf.occurrence("HEAL")
    vnf.sized("heal", worker_instance=3)
    error = vnf.connect()
    if "Tacker's v1 API" in error:
        vnf.faults.append("a change of the external connectivity after a heal: %r" % error)
    vnf.sized("change of connectivity", worker_instance=3)
    yield report("connectivity after a scaling", vnf)
    vnf = VNF("new", "a-config-id")
    vnf.instantiate()
    vnf.scale_out("master_instance")
    vnf.scale_out("worker_instance")
    vnf.scale_rollback("worker_instance", 3)
    vnf.sized("rollback", master_instance=4, worker_instance=3)
    vnf.heal()
    vnf.occurrence("HEAL")
    vnf.scale_rollback("worker_instance", 3)
    vnf.sized("rollback after a heal", master_instance=4, worker_instance=3)
    vnf.scale_out("worker_instance")
    try:
        vnf.scale_rollback("worker_instance", 4)
        vnf.faults.append("a rollback to more workers than at the last heal was not refused")
    except client.Error as error:
        if "Heat would make worker_instance as large as at the last heal" not in str(error):
            vnf.faults.append("the rollback after a heal: %s" % error)
    yield report("rollback after scalings", vnf)


json.dump([*lives(), *damaged(), *refusals(), *scalings()], printed)
