"""Steps in the life of a cluster's VIM with Tacker itself, whose source is in PYTHONPATH: its
configuration, its NFVO plugin, its Kubernetes driver, and its database in SQLite. Each step is a
process of its own, as each script of the v2 API is: it has imported Tacker's modules, and nothing
but the driver opens the configuration or the database. Stood in for are the cluster, the key
manager, and stevedore's search.

real_vim.py STATE STEPS: STATE.json has what the stand-ins keep. STEPS are JSON: a list of {"api",
"call", "vnf", "args"}. Prints a list of {"error", "vims", "asked", "keys"} as JSON. What is
logged goes to STATE.log. HOME has Tacker's configuration.
"""

import json
import logging
import os
import sys
import traceback
import types
import uuid

from nodehitch.tacker import vim_v2  # first, as in a script: what it needs of Tacker, it imports

from cryptography import fernet
from tacker import context as tacker_context
from tacker.conductor import conductor_server
from tacker.db import api as db_api
from tacker.db import model_base
from tacker.db.db_sqlalchemy import models
import tacker.db.migration.models.head  # noqa: F401  # all models
from tacker.nfvo import nfvo_plugin
from tacker.nfvo.drivers.vim import kubernetes_driver
from tacker.vnfm import vim_client

from nodehitch import client
from nodehitch.tacker import vim

state_file, steps = sys.argv[1], json.loads(sys.argv[2])
logging.basicConfig(level=logging.DEBUG, filename=state_file + ".log", force=True)
VNFDS = {name: str(uuid.uuid5(uuid.NAMESPACE_DNS, name)) for name in ("vnf", "other", "unknown")}


kept = {"keys": {}, "asked": []}
keys, asked = kept["keys"], kept["asked"]


def prepare():
    """What an installed Tacker has: tables, and a VNF package for each VNFD but the unknown one's."""
    conductor_server.init([])
    engine = db_api.get_engine()
    model_base.BASE.metadata.create_all(engine)
    with engine.connect() as connection:  # one may read while another writes
        connection.connection.cursor().execute("PRAGMA journal_mode=WAL")
    with engine.begin() as connection:
        for name in ("vnf", "other"):
            package = {"id": str(uuid.uuid4()), "tenant_id": "tenant", "onboarding_state": "ONBOARDED", "operational_state": "ENABLED",
                       "usage_state": "IN_USE", "size": 1}
            connection.execute(models.VnfPackage.__table__.insert().values(**package))
            connection.execute(models.VnfPackageVnfd.__table__.insert().values(
                id=str(uuid.uuid4()), package_uuid=package["id"], vnfd_id=VNFDS[name], vnf_provider="p", vnf_product_name="p",
                vnf_software_version="1", vnfd_version="1"))


class KeyManager:
    def __init__(self, url):
        pass

    def store(self, context, key):
        name = str(uuid.uuid4())
        keys[name] = key.decode() if isinstance(key, bytes) else key
        return name

    def get(self, context, name):
        return types.SimpleNamespace(payload=keys[name].encode())

    def delete(self, context, name):
        del keys[name]


class Drivers:
    def __init__(self, *args):
        self.kubernetes = kubernetes_driver.Kubernetes_Driver()

    def invoke(self, type_, method, **kwargs):
        return getattr(getattr(self, type_), method)(**kwargs)


class Cluster:
    items = []  # namespaces

    def get_api_versions(self):
        return "v1"

    def list_namespace(self):
        return self


def ask(self, auth):
    asked.append(auth["auth_url"])
    return Cluster()


kubernetes_driver.KEYMGR_API = vim_client.KEYMGR_API = KeyManager
tacker_context.generate_tacker_service_context = lambda: None
kubernetes_driver.kubernetes_utils.KubernetesHTTPAPI.get_core_api_client = ask
kubernetes_driver.kubernetes_utils.KubernetesHTTPAPI.get_core_v1_api_client = ask
nfvo_plugin.driver_manager.DriverManager = Drivers


def user(project):
    return tacker_context.Context(user_id="user", project_id=project, is_admin=False)


def admin():
    return tacker_context.Context(user_id="admin", project_id="administrators", is_admin=True)


def v1(call, vnf, *args):
    conductor_server.init([])
    db_api.get_engine()  # tacker-conductor has it long before its hooks
    {"register": vim.register, "delete": vim.delete}[call](admin(), "tenant", vnf, *args)


def v2(call, vnf, *args):
    {"register": vim_v2.register, "delete": vim_v2.delete}[call]({"id": vnf, "vnfdId": VNFDS[vnf]}, *args)


def vims(context):
    plugin, found = nfvo_plugin.NfvoPlugin(), []
    for each in plugin.get_vims(context):
        credential = plugin.get_vim(context, each["id"], mask_password=False)["auth_cred"]
        token = credential["bearer_token"]
        token = fernet.Fernet(keys[credential["secret_uuid"]]).decrypt(token if isinstance(token, bytes) else token.encode())
        found.append({"id": each["id"], "name": each["name"], "url": each["auth_url"], "token": token.decode(), "extra": each["extra"],
                      "project": each["tenant_id"]})
    return found


def of_cnf(vim_id):
    """What Tacker puts in the place of the vimConnectionInfo of a CNF's request that names the VIM."""
    from tacker import manager
    from tacker.sol_refactored import objects as sol_objects
    from tacker.sol_refactored.api import validator
    from tacker.sol_refactored.api.schemas import vnflcm_v2
    from tacker.sol_refactored.common import exceptions as sol_exceptions
    from tacker.sol_refactored.common import vim_utils
    sol_objects.register_all()
    manager.TackerManager.get_service_plugins = classmethod(lambda cls: {"NFVO": nfvo_plugin.NfvoPlugin()})
    by_id = {"vimId": vim_id, "vimType": "ETSINFV.KUBERNETES.V_1"}
    given = vim_utils.get_vim(user("tenant"), vim_id).to_dict()
    whole = {key: given[key] for key in ("vimType", "interfaceInfo", "accessInfo")}
    instantiation = validator.SolSchemaValidator(vnflcm_v2.InstantiateVnfRequest_V200)
    for each in (by_id, whole):
        instantiation.validate({"flavourId": "simple", "vimConnectionInfo": {"cluster": each}})
    validator.SolSchemaValidator(vnflcm_v2.VnfInfoModificationRequest_V200).validate({"vimConnectionInfo": {"cluster": whole}})
    try:
        vim_utils.get_vim(user("another"), vim_id)
        raise AssertionError("another project has the VIM")
    except sol_exceptions.VimNotFound:
        return whole


def run(step):
    """One step, in a process of its own."""
    if step["call"] == "prepare":
        return prepare()
    if os.path.exists(state_file + ".json"):
        with open(state_file + ".json") as file:
            before = json.load(file)
        keys.update(before["keys"])
        asked.extend(before["asked"])
    answer = {"error": ""}
    try:
        {"v1": v1, "v2": v2}[step["api"]](step["call"], step["vnf"], *step["args"])
    except client.Error as raised:
        answer["error"] = str(raised)
    if step.get("look", True):
        answer.update(vims=vims(admin()))
        if step.get("cnf"):
            answer["cnf"] = of_cnf(answer["vims"][0]["id"])
    answer.update(asked=len(asked), keys=len(keys))
    with open(state_file + ".json", "w") as file:
        json.dump(kept, file)
    return answer


def in_a_process(step):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, json.dumps(run(step)).encode())
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        answer = answers.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, step
    return json.loads(answer)


json.dump([in_a_process(each) for each in steps], sys.stdout)
