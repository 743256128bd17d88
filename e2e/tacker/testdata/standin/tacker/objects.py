from types import SimpleNamespace

from tacker import state


def register_all():
    pass


class VnfLcmOpOccList:
    @staticmethod
    def get_by_filters(context, read_deleted=None, filters=None):
        assert filters["model"] == "VnfLcmOpOccs" and filters["op"] == "=="
        found = [SimpleNamespace(**each) for each in state.load()["occurrences"] if each[filters["field"]] == filters["value"]]
        return SimpleNamespace(objects=found)
