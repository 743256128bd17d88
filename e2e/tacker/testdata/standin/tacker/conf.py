import os
from types import SimpleNamespace

CONF = SimpleNamespace(
    vnf_lcm=SimpleNamespace(heal_include_block_storage_key="tacker_extension_heal_include_block_storage", heal_vnfc_block_storage=True),  # of 2025.2
    vnf_package=SimpleNamespace(vnf_package_csar_path=os.environ.get("TACKER_STANDIN_PACKAGES")))
