"""VNF packages by the id of their VNFD, in Tacker's database.

Projects may have packages with one VNFD id, and with one content. So nothing else identifies a
package, and what is ambiguous is refused.
"""

from typing import Any, List, NamedTuple

from nodehitch import client
from tacker.db import api as transactions
from tacker.db.db_sqlalchemy import api as database
from tacker.db.db_sqlalchemy import models


class Package(NamedTuple):
    """A VNF package. Tacker keeps it in a folder that has its id as name."""

    id: str
    project: str


@transactions.context_manager.reader  # type: ignore[misc]  # Tacker has no types
def with_vnfd(context: Any, vnfd: str) -> List[Package]:
    """The packages of all projects that have this VNFD id."""
    ids = [each.package_uuid for each in database.model_query(context, models.VnfPackageVnfd, read_deleted="no").filter_by(vnfd_id=vnfd).all()]
    found = [database.model_query(context, models.VnfPackage, read_deleted="no").filter_by(id=each).first() for each in ids]
    return [Package(each.id, each.tenant_id) for each in found if each is not None]


def ambiguous(instance: str, vnfd: str, number: int) -> client.Error:
    """The error for several packages. Tacker shows it to a user of one project, so it says nothing of the others' packages."""
    return client.Error(
        "VNF instance %s: %d VNF packages have its VNFD %s; expected one, because Tacker does not tell which of their projects has the instance: "
        "let an administrator delete the others, then retry; or instantiate a VNF of a package with a descriptor_id of its own"
        % (instance, number, vnfd))
