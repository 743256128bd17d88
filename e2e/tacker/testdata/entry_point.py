"""Loads the driver as tacker-conductor does: by stevedore, with the name that is in vnflcm_mgmt_driver.

Prints its type, the file that Tacker hashes, and what else is installed, as JSON.
"""

import importlib.metadata
import importlib.util
import inspect
import json
import sys

import stevedore.named

manager = stevedore.named.NamedExtensionManager("tacker.tacker.mgmt.drivers", ["nodehitch"], invoke_on_load=True)
drivers = {extension.obj.get_type(): extension.obj for extension in manager}
driver = drivers["nodehitch"]
json.dump({
    "type": driver.get_type(), "file": inspect.getfile(type(driver)), "version": importlib.metadata.version("nodehitch-tacker"),
    "script": importlib.util.find_spec("nodehitch.tacker.script").origin, "stevedore": importlib.metadata.version("stevedore"),
    "python": sys.version.split()[0],
}, sys.stdout)
