import os


def get_vnf_package_path(context, vnfd_id):
    return os.path.join(os.environ["TACKER_STANDIN_PACKAGES"], vnfd_id)


def get_vim(context, vim_connection_info):
    first = vim_connection_info[0]
    return {"id": first.vim_id, "vim_id": first.vim_id, "vim_type": "openstack", "access_info": first.access_info, "tenant_id": "t", "extra": {}}
