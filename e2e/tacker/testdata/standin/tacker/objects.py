from types import SimpleNamespace

from tacker.common import exceptions
from tacker.db import api as transactions
from tacker.db.db_sqlalchemy import api
from tacker.db.db_sqlalchemy import models


def register_all():
    pass


class VnfLcmOpOccList:
    @staticmethod
    @transactions.context_manager.reader
    def get_by_filters(context, read_deleted=None, filters=None):
        assert filters["model"] == "VnfLcmOpOccs" and filters["op"] == "=="
        return SimpleNamespace(objects=api.model_query(context, models.VnfLcmOpOccs).filter_by(**{filters["field"]: filters["value"]}).all())


class VnfPackageVnfd:
    @staticmethod
    @transactions.context_manager.reader
    def get_by_id(context, id):
        """The first with this vnfd_id, of the context's project if that is a user's. Several projects may have one."""
        for each in api.model_query(context, models.VnfPackageVnfd).filter_by(vnfd_id=id).all():
            if api.model_query(context, models.VnfPackage, project_only=True).filter_by(id=each.package_uuid).first():
                return each
        raise exceptions.VnfPackageVnfdNotFound(id)


class VnfPackage:
    @staticmethod
    @transactions.context_manager.reader
    def get_by_id(context, id, expected_attrs=None):
        found = api.model_query(context, models.VnfPackage, project_only=True).filter_by(id=id).first()
        if not found:
            raise exceptions.VnfPackageNotFound(id)
        return found
