"""The VIM of a cluster, for the script of Tacker's v2 API.

A script has no context of Tacker. So it opens Tacker's configuration and database itself, as
tacker-conductor, whose user runs it, does. The modules of Tacker that this needs take seconds to
load: only what has a cluster imports them.
"""

from typing import Any, Optional

from nodehitch import client
from nodehitch.tacker import vim
from tacker import context as tacker_context
from tacker import objects
from tacker.common import exceptions
from tacker.conductor import conductor_server


def register(instance: client.Object, name: str, access: client.Object) -> None:
    """Make the VIM one of this access. Without a project of the VNF there is none."""
    context = _context(instance)
    if context is not None:
        vim.register(context, context.project_id, instance["id"], name, access)


def delete(instance: client.Object) -> None:
    """Delete the VIM, if there is one."""
    context = _context(instance)
    if context is not None:
        vim.delete(context, context.project_id, instance["id"])


def _context(instance: client.Object) -> Optional[Any]:
    """A user's context in the project of the VNF. None if Tacker has no VNF package with its VNFD: an NFVO outside has it.

    Tacker keeps no project of a VNF of the v2 API, but the one of its package. VNFD ids are
    unique, and users instantiate only packages of their own project.
    """
    try:
        conductor_server.init([])
        objects.register_all()
        admin = tacker_context.get_admin_context()
        package = objects.VnfPackageVnfd.get_by_id(admin, instance["vnfdId"]).package_uuid
        project = objects.VnfPackage.get_by_id(admin, package).tenant_id
    except exceptions.NotFound:
        return None
    except Exception as error:  # of Tacker's configuration or of its database
        raise client.Error("the VIM of VNF instance %s: Tacker's database does not tell the project of VNFD %s: %s: %s"
                           % (instance["id"], instance["vnfdId"], type(error).__name__, " ".join(str(error).split()))) from None
    return tacker_context.Context(user_id=None, tenant_id=project, is_admin=False)
