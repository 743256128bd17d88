import glob
import os

import yaml

from tacker import objects


def get_vnf_package_path(context, vnfd_id):
    return os.path.join(os.environ["TACKER_STANDIN_PACKAGES"], objects.VnfPackageVnfd.get_by_id(context, vnfd_id).package_uuid)


def get_vim(context, vim_connection_info):
    first = vim_connection_info[0]
    return {"id": first.vim_id, "vim_id": first.vim_id, "vim_type": "openstack", "access_info": first.access_info, "tenant_id": "t", "extra": {}}


def get_base_nest_hot_dict(context, flavour_id, vnfd_id):
    folder = os.path.join(get_vnf_package_path(context, vnfd_id), "BaseHOT", flavour_id)
    return _documents(folder).popitem()[1] if os.path.isdir(folder) else None, _documents(os.path.join(folder, "nested"))


def _documents(folder):
    read = {}
    for path in glob.glob(os.path.join(folder, "*.y*ml")):
        with open(path) as file:
            read[os.path.basename(path)] = yaml.safe_load(file)
    return read
