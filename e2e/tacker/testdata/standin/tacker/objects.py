import os
from types import SimpleNamespace

from tacker import state
from tacker.common import exceptions


def register_all():
    pass


class VnfLcmOpOccList:
    @staticmethod
    def get_by_filters(context, read_deleted=None, filters=None):
        assert filters["model"] == "VnfLcmOpOccs" and filters["op"] == "=="
        found = [SimpleNamespace(**each) for each in state.load()["occurrences"] if each[filters["field"]] == filters["value"]]
        return SimpleNamespace(objects=found)


class VnfPackageVnfd:
    @staticmethod
    def get_by_id(context, id):
        state.load()
        if not os.path.isdir(os.path.join(os.environ["TACKER_STANDIN_PACKAGES"], id)):
            raise exceptions.VnfPackageVnfdNotFound(id)
        return SimpleNamespace(package_uuid="package of " + id)


class VnfPackage:
    @staticmethod
    def get_by_id(context, id):
        assert id.startswith("package of ")
        return SimpleNamespace(tenant_id="tenant")
