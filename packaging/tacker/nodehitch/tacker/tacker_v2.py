"""Tacker's configuration and database, for the script of its v2 API.

A script has no context of Tacker. So it opens both itself, as tacker-conductor, whose user runs it,
does. The modules of Tacker that this needs take seconds to load: only what needs them imports
this one.
"""

import os
from typing import List, Optional

from nodehitch import client
from nodehitch.tacker import packages
from nodehitch.tacker.packages import Package
from tacker import conf
from tacker import context as tacker_context
from tacker import objects
from tacker.conductor import conductor_server
from tacker.db import api as transactions
from tacker.sol_refactored.common import config


def package_folder(instance: str, vnfd: str) -> Optional[str]:
    """The folder of the VNF package with this VNFD. None if an NFVO outside has it."""
    found = package_of(instance, vnfd)
    return os.path.join(conf.CONF.vnf_package.vnf_package_csar_path, found.id) if found else None


def package_of(instance: str, vnfd: str) -> Optional[Package]:
    """The VNF package with this VNFD. None if an NFVO outside has it: what Tacker has of that id then is another project's."""
    found = packages_of(instance, vnfd)
    if not found or config.CONF.v2_nfvo.use_external_nfvo:
        return None
    if len(found) > 1:
        raise packages.ambiguous(instance, vnfd, len(found))
    return found[0]


def packages_of(instance: str, vnfd: str) -> List[Package]:
    """The VNF packages of Tacker's with this VNFD."""
    try:
        conductor_server.init([])
        transactions.get_engine()  # a query does not give Tacker's settings to the database's facade, which takes none afterwards
        objects.register_all()
        found: List[Package] = packages.with_vnfd(tacker_context.get_admin_context(), vnfd)
        return found
    except Exception as error:  # of Tacker's configuration or of its database
        raise client.Error("VNF instance %s: Tacker's database does not tell the VNF package of VNFD %s: %s: %s"
                           % (instance, vnfd, type(error).__name__, " ".join(str(error).split()))) from None
