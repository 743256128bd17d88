"""Takes the VIM of a cluster through its life with Tacker itself, whose source is in PYTHONPATH:
its NFVO plugin, its Kubernetes driver, and its database in SQLite. Stood in for are the cluster,
the key manager, and stevedore's search. Prints the VIMs after each step, as JSON.

real_vim.py LOG: everything that is logged goes there.
"""

import json
import logging
import sys
import uuid

from cryptography import fernet
from oslo_config import cfg
from oslo_db import options as db_options

logging.basicConfig(level=logging.DEBUG, filename=sys.argv[1])
cfg.CONF([], project="tacker")
db_options.set_defaults(cfg.CONF, connection="sqlite://")

from tacker import context as tacker_context  # noqa: E402
from tacker.db import api as db_api  # noqa: E402
from tacker.db import model_base  # noqa: E402
from tacker.db.nfvo import nfvo_db  # noqa: E402
from tacker.db.vnfm import vnfm_db  # noqa: E402
from tacker.nfvo import nfvo_plugin  # noqa: E402
from tacker.nfvo.drivers.vim import kubernetes_driver  # noqa: E402

from nodehitch import client  # noqa: E402
from nodehitch.tacker import vim  # noqa: E402

cfg.CONF.register_opt(cfg.StrOpt("auth_url", default=""), group="keystone_authtoken")
tables = [nfvo_db.Vim.__table__, nfvo_db.VimAuth.__table__, vnfm_db.VNF.__table__]
tables += [table for name, table in model_base.BASE.metadata.tables.items() if name == "events"]  # until 2023.2
model_base.BASE.metadata.create_all(db_api.get_engine(), tables=tables)
keys, asked = {}, []


class KeyManager:
    def __init__(self, url):
        pass

    def store(self, context, key):
        name = str(uuid.uuid4())
        keys[name] = key
        return name

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


kubernetes_driver.KEYMGR_API = KeyManager
kubernetes_driver.t_context.generate_tacker_service_context = lambda: None
kubernetes_driver.kubernetes_utils.KubernetesHTTPAPI.get_core_api_client = ask
kubernetes_driver.kubernetes_utils.KubernetesHTTPAPI.get_core_v1_api_client = ask
nfvo_plugin.driver_manager.DriverManager = Drivers


def context():
    return tacker_context.Context(user_id="user", project_id="tenant", is_admin=False)


def vims():
    plugin, found = nfvo_plugin.NfvoPlugin(), []
    for each in plugin.get_vims(context()):
        credential = plugin.get_vim(context(), each["id"], mask_password=False)["auth_cred"]
        token = credential["bearer_token"]
        token = fernet.Fernet(keys[credential["secret_uuid"]]).decrypt(token if isinstance(token, bytes) else token.encode())
        found.append({"id": each["id"], "name": each["name"], "url": each["auth_url"], "token": token.decode(), "extra": each["extra"]})
    return found


steps = []


def step(call, *args):
    error = ""
    try:
        call(context(), *args)
    except client.Error as raised:
        error = str(raised)
    steps.append({"vims": vims(), "asked": len(asked), "keys": len(keys), "error": error})


def access(endpoint, token):
    return {"endpoint": endpoint, "caCertificate": "CA", "token": token}


VNF, OTHER = "vnf", "other"
step(vim.register, VNF, "name", access("10.0.0.1:6443", "token-one"))
step(vim.register, VNF, "name", access("10.0.0.1:6443", "token-one"))
step(vim.register, VNF, "name", access("10.0.0.1:6443", "token-two"))
step(vim.register, VNF, "name", access("10.0.0.2:6443", "token-two"))
step(vim.register, OTHER, "name", access("10.0.0.3:6443", "token-three"))
step(vim.delete, OTHER)
step(vim.delete, VNF)
json.dump(steps, sys.stdout)
