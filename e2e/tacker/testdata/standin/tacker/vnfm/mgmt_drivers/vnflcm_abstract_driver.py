import abc

HOOKS = ("instantiate_start", "instantiate_end", "terminate_start", "terminate_end", "scale_start", "scale_end", "heal_start", "heal_end",
         "change_external_connectivity_start", "change_external_connectivity_end", "modify_information_start", "modify_information_end",
         "get_type", "get_name", "get_description")


def _abstract(name):
    def method(self, *args, **kwargs):
        raise NotImplementedError(name)
    return abc.abstractmethod(method)


VnflcmMgmtAbstractDriver = abc.ABCMeta("VnflcmMgmtAbstractDriver", (), {name: _abstract(name) for name in HOOKS})
