"""Keep parameters and a base HOT as Tacker's v1 API does.

stdin: JSON [{"template": text, "parameters": {name: value}}]
"""
import json
import sys

import yaml

COLUMN = 65535  # bytes of vnf_attribute.value
for each in json.load(sys.stdin):
    kept = each["parameters"]
    for times in range(1, 11):
        text = str(kept)
        kept = yaml.safe_load(text)
        for name, value in each["parameters"].items():
            assert kept[name] == value, "%s after %d times: %r" % (name, times, kept[name])
    size = len(yaml.safe_dump(yaml.safe_load(each["template"])).encode())
    assert max(size, len(text.encode())) <= COLUMN, "%d bytes, parameters %d" % (size, len(text.encode()))
    print(size)
