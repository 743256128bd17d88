import os
from types import SimpleNamespace

CONF = SimpleNamespace(vnf_package=SimpleNamespace(vnf_package_csar_path=os.environ.get("TACKER_STANDIN_PACKAGES")))
