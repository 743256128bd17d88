from types import SimpleNamespace

from tacker import context as tacker_context
from tacker import state


def model_query(context, model, args=None, read_deleted=None, project_only=False):
    where = {"tenant_id": context.project_id} if project_only and tacker_context.is_user_context(context) else {}
    return _Query(model.table, where)


class _Query:
    def __init__(self, table, where):
        self.table, self.where = table, where

    def filter_by(self, **where):
        return _Query(self.table, {**self.where, **where})

    def _of(self, rows):
        return [each for each in rows if all(each[key] == value for key, value in self.where.items())]

    def all(self):
        return [SimpleNamespace(**each) for each in self._of(state.rows(self.table))]

    def first(self):
        return next(iter(self.all()), None)

    def update(self, values, synchronize_session):
        assert synchronize_session is False
        whole = state.load()
        for each in self._of(whole[self.table]):
            each.update(values)
        state.save(whole)
