"""The VIM by which Tacker uses the Kubernetes cluster of a VNF instance.

It is registered as Tacker's own Kubernetes driver does it, in the project of the VNF, whoever
calls. Its `extra` says whose it is, so that no other VIM is changed, whatever its name is, and
which access it has, because Tacker keeps credentials encrypted.
"""

import hashlib
import json
import logging
from typing import Any, Callable, Optional

from nodehitch import client
from tacker.nfvo.nfvo_plugin import NfvoPlugin

LOG = logging.getLogger(__name__)

MARK = "nodehitch"  # in extra


def register(context: Any, project: str, instance: str, name: str, access: client.Object) -> None:
    """Make the VIM one of this access: endpoint, caCertificate, token."""
    url = "https://" + access["endpoint"]
    mark = {"vnfInstanceId": instance, "accessSha256": _digest(access)}
    vim = {"name": name, "auth_cred": {"bearer_token": access["token"], "ssl_ca_cert": access["caCertificate"]}, "extra": {MARK: mark}}

    def change() -> None:
        plugin = NfvoPlugin()
        known = _known(plugin, context, project, instance)
        if known and (known["auth_url"], known["name"], known["extra"][MARK]) == (url, name, mark):
            return
        if known and known["auth_url"] == url:
            plugin.update_vim(context, known["id"], {"vim": vim})
        else:
            if known:  # Tacker changes no URL of a VIM
                plugin.delete_vim(context, known["id"])
            plugin.create_vim(context, {"vim": {
                **vim, "type": "kubernetes", "auth_url": url, "vim_project": {"name": "default"}, "tenant_id": project}})
        LOG.info("nodehitch: VIM %s of VNF instance %s is registered with %s; its token ends at %s",
                 name, instance, url, access.get("tokenExpiresAt", "no known time"))

    _tacker("VIM %s of VNF instance %s: Tacker did not register it with %s" % (name, instance, url), change, access["token"])


def delete(context: Any, project: str, instance: str) -> None:
    """Delete the VIM, if there is one."""
    def change() -> None:
        plugin = NfvoPlugin()
        known = _known(plugin, context, project, instance)
        if known:
            plugin.delete_vim(context, known["id"])
            LOG.info("nodehitch: VIM %s of VNF instance %s is deleted", known["name"], instance)

    _tacker("the VIM of VNF instance %s: Tacker did not delete it" % instance, change)


def _known(plugin: Any, context: Any, project: str, instance: str) -> Optional[client.Object]:
    """The VIM with the mark of the instance. Whoever has a VIM can write a mark, so one in another project does not count."""
    return next((each for each in plugin.get_vims(context)
                 if each["tenant_id"] == project and ((each.get("extra") or {}).get(MARK) or {}).get("vnfInstanceId") == instance), None)


def _digest(access: client.Object) -> str:
    return hashlib.sha256(json.dumps([access["caCertificate"], access["token"]]).encode()).hexdigest()


def _tacker(what: str, change: Callable[[], None], token: str = "") -> None:
    try:
        change()
    except Exception as error:  # of Tacker's database, of its key manager or of the cluster
        text = "%s: %s" % (type(error).__name__, " ".join(str(error).split()))
        raise client.Error("%s: %s" % (what, text.replace(token, "[redacted]") if token else text)) from None
