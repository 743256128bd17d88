"""Configure the servers of a stack for a request of Tacker, without Tacker.

instantiate.py CONTROLLER-URL ROOT.pem PIN TOKEN-FILE STACK REQUEST.json PACKAGE-FOLDER
"""

import json
import os
import sys
import uuid

from nodehitch.client import Client, read_token

url, root, pin, token_file, stack, request, folder = sys.argv[1:]
with open(root) as r, open(request) as q:
    controller, parameters = Client([url], r.read(), pin, read_token(token_file)), json.load(q)["additionalParams"]
vnf = str(uuid.uuid4())
instance = controller.put_instance(vnf, {"stackId": stack, "additionalParams": parameters})
for path in instance["missingFiles"]:
    controller.put_file(vnf, path, os.path.join(folder, path))
done = controller.operate(vnf, {"operation": "INSTANTIATE"}, seconds=1800)
for target in done["targets"]:
    print(vnf, target["name"], target["nodeId"])
