import os

import yaml


def get_vnfd(vnfd_id, csar_dir):
    return _Vnfd(csar_dir)


class _Vnfd:
    """What a VNF package says."""

    def __init__(self, folder):
        self.folder = folder

    def nodes(self, flavour_id):
        """The node templates of the flavour."""
        for document in _documents(os.path.join(self.folder, "Definitions")).values():
            topology = document.get("topology_template", {})
            if topology.get("substitution_mappings", {}).get("properties", {}).get("flavour_id") == flavour_id:
                return topology["node_templates"]
        raise LookupError(flavour_id)

    def get_base_hot(self, flavour_id):
        folder = os.path.join(self.folder, "BaseHOT", flavour_id)
        template, = _documents(folder).values()
        return {"template": template, "files": _documents(os.path.join(folder, "nested"))}


def _documents(folder):
    read = {}
    for name in os.listdir(folder):
        if name.endswith(".yaml"):
            with open(os.path.join(folder, name)) as file:
                read[name] = yaml.load(file, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # much faster
    return read
