"""Have cloud-init itself take user_data apart, as at the first boot of a server.

consume.py DIRECTORY < user_data, with an empty DIRECTORY for its files. Prints JSON: the cloud-config that the modules would get, and the scripts that would run.
"""
import json
import os
import sys

from cloudinit import stages, util

root = sys.argv[1]
paths = {"cloud_dir": os.path.join(root, "cloud"), "run_dir": os.path.join(root, "run"),
         "templates_dir": os.path.join(root, "templates")}
# The source that is no cloud: it looks at no device, and gives what it is given here.
config = {"datasource_list": ["None"], "datasource": {"None": {"userdata_raw": sys.stdin.read()}},
          "system_info": {"paths": paths, "distro": "debian"}}
init = stages.Init(ds_deps=[])
init._read_cfg = lambda *a, **k: config  # and nothing of this machine's own
init.initialize()
init.fetch()
init.instancify()
init.update()
init.consume_data("always")
instance = os.path.join(paths["cloud_dir"], "instance")
scripts = os.path.join(instance, "scripts")
print(json.dumps({
    "config": util.load_yaml(util.load_file(os.path.join(instance, "cloud-config.txt"))),
    "scripts": [util.load_file(os.path.join(scripts, name)) for name in sorted(os.listdir(scripts))],
}))
