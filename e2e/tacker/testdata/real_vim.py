"""Takes the VIM of a cluster through its life with Tacker itself, whose source is in PYTHONPATH:
its conductor's configuration, its NFVO plugin, its Kubernetes driver, and its database in SQLite.
Stood in for are the cluster, the key manager, and stevedore's search. Prints for either API the
VIMs after each step, and what a CNF of the v2 API gets of the VIM, as JSON.

real_vim.py LOG: everything that is logged goes there. HOME has Tacker's configuration.
"""

import json
import logging
import sys
import types
import uuid

from cryptography import fernet
from sqlalchemy.orm import close_all_sessions

logging.basicConfig(level=logging.DEBUG, filename=sys.argv[1])

from tacker.conductor import conductor_server  # noqa: E402

conductor_server.init([])

from tacker import context as tacker_context  # noqa: E402
from tacker import manager  # noqa: E402
from tacker.db import api as db_api  # noqa: E402
from tacker.db import model_base  # noqa: E402
from tacker.db.db_sqlalchemy import models  # noqa: E402
from tacker.nfvo import nfvo_plugin  # noqa: E402
from tacker.nfvo.drivers.vim import kubernetes_driver  # noqa: E402
from tacker.sol_refactored import objects as sol_objects  # noqa: E402
from tacker.sol_refactored.api import validator  # noqa: E402
from tacker.sol_refactored.api.schemas import vnflcm_v2  # noqa: E402
from tacker.sol_refactored.common import exceptions as sol_exceptions  # noqa: E402
from tacker.sol_refactored.common import vim_utils  # noqa: E402
from tacker.vnfm import vim_client  # noqa: E402

from nodehitch import client  # noqa: E402
from nodehitch.tacker import vim, vim_v2  # noqa: E402

VNF, OTHER = "vnf", "other"
VNFDS = {VNF: str(uuid.uuid4()), OTHER: str(uuid.uuid4())}
UNKNOWN = str(uuid.uuid4())  # of an NFVO outside
sol_objects.register_all()
engine = db_api.get_engine()
model_base.BASE.metadata.create_all(engine)
with engine.connect() as connection:  # one may read while another writes
    connection.connection.cursor().execute("PRAGMA journal_mode=WAL")
with engine.begin() as connection:
    for vnfd in VNFDS.values():
        package = {"id": str(uuid.uuid4()), "tenant_id": "tenant", "onboarding_state": "ONBOARDED", "operational_state": "ENABLED",
                   "usage_state": "IN_USE", "size": 1}
        connection.execute(models.VnfPackage.__table__.insert().values(**package))
        connection.execute(models.VnfPackageVnfd.__table__.insert().values(
            id=str(uuid.uuid4()), package_uuid=package["id"], vnfd_id=vnfd, vnf_provider="p", vnf_product_name="p",
            vnf_software_version="1", vnfd_version="1"))
keys, asked = {}, []


class KeyManager:
    def __init__(self, url):
        pass

    def store(self, context, key):
        name = str(uuid.uuid4())
        keys[name] = key
        return name

    def get(self, context, name):
        return types.SimpleNamespace(payload=keys[name])

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
manager.TackerManager.get_service_plugins = classmethod(lambda cls: {"NFVO": nfvo_plugin.NfvoPlugin()})


def user(project):
    return tacker_context.Context(user_id="user", project_id=project, is_admin=False)


def vims(project="tenant"):
    plugin, found = nfvo_plugin.NfvoPlugin(), []
    for each in plugin.get_vims(user(project)):
        credential = plugin.get_vim(user(project), each["id"], mask_password=False)["auth_cred"]
        token = credential["bearer_token"]
        token = fernet.Fernet(keys[credential["secret_uuid"]]).decrypt(token if isinstance(token, bytes) else token.encode())
        found.append({"id": each["id"], "name": each["name"], "url": each["auth_url"], "token": token.decode(), "extra": each["extra"]})
    return found


def admin():
    return tacker_context.Context(user_id="admin", project_id="administrators", is_admin=True)


APIS = {
    "v1": (lambda vnf, *args: vim.register(admin(), "tenant", vnf, *args), lambda vnf: vim.delete(admin(), "tenant", vnf)),
    "v2": (lambda vnf, *args: vim_v2.register({"id": vnf, "vnfdId": VNFDS[vnf]}, *args),
           lambda vnf: vim_v2.delete({"id": vnf, "vnfdId": VNFDS[vnf]})),
}


def life(register, delete):
    """The VIMs after each step."""
    steps = []
    del asked[:]

    def step(call, *args):
        error = ""
        try:
            call(*args)
        except client.Error as raised:
            error = str(raised)
        close_all_sessions()  # Tacker leaves transactions open, and SQLite has one writer
        steps.append({"vims": vims(), "asked": len(asked), "keys": len(keys), "error": error})

    def access(endpoint, token):
        return {"endpoint": endpoint, "caCertificate": "CA", "token": token}

    step(register, VNF, "name", access("10.0.0.1:6443", "token-one"))
    step(register, VNF, "name", access("10.0.0.1:6443", "token-one"))
    step(register, VNF, "name", access("10.0.0.1:6443", "token-two"))
    step(register, VNF, "name", access("10.0.0.2:6443", "token-two"))
    step(register, OTHER, "name", access("10.0.0.3:6443", "token-three"))
    step(delete, OTHER)
    assert steps[-1]["vims"], steps
    cnf = of_cnf(steps[-1]["vims"][0]["id"])
    step(delete, VNF)
    return {"steps": steps, "cnf": cnf}


def of_cnf(vim_id):
    """What Tacker puts in the place of the vimConnectionInfo of a CNF's request that names the VIM."""
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


answer = {name: life(*calls) for name, calls in APIS.items()}
vim_v2.register({"id": UNKNOWN, "vnfdId": UNKNOWN}, "name", {"endpoint": "10.0.0.1:6443", "caCertificate": "CA", "token": "token-one"})
vim_v2.delete({"id": UNKNOWN, "vnfdId": UNKNOWN})
answer["outside"] = len(nfvo_plugin.NfvoPlugin().get_vims(admin()))
model_base.BASE.metadata.drop_all(engine)
try:
    vim_v2.delete({"id": VNF, "vnfdId": VNFDS[VNF]})
except client.Error as raised:
    answer["away"] = str(raised)
json.dump(answer, sys.stdout)
