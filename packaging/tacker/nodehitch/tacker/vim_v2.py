"""The VIM of a cluster, for the script of Tacker's v2 API.

Tacker keeps no project of a VNF of the v2 API, but the one of its package: users instantiate
only packages of their own project. What a VNF instance says of a VIM, its user has written.
"""

from typing import Any

from nodehitch import client
from nodehitch.tacker import tacker_v2, vim
from tacker import context as tacker_context


def register(instance: client.Object, name: str, access: client.Object) -> None:
    """Make the VIM one of this access. There is none if an NFVO outside has the VNF package."""
    found = tacker_v2.package_of(instance["id"], instance["vnfdId"])
    if found:
        vim.register(_user(found.project), found.project, instance["id"], name, access)


def delete(instance: client.Object) -> None:
    """Delete the VIM, if there is one.

    Of several projects each is asked for one with the instance's mark. Whoever has written that
    mark has written it into a VIM of his own.
    """
    found = tacker_v2.packages_of(instance["id"], instance["vnfdId"])
    for project in sorted({each.project for each in found}):
        vim.delete(_user(project), project, instance["id"])


def _user(project: str) -> Any:
    return tacker_context.Context(user_id=None, tenant_id=project, is_admin=False)
