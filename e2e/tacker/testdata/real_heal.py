"""Prints what a driver of Tacker is given of the body of a heal, by each API: after Tacker's own schema, and for v1 on its way to the conductor.

real_heal.py BODIES: a list of them.
"""

import json
import sys

import jsonschema

from tacker.api.schemas import vnf_lcm
from tacker.common import utils
from tacker import objects
from tacker.objects import base
import tacker.objects.heal_vnf_request  # noqa: F401
from tacker.sol_refactored import objects as objects_v2
from tacker.sol_refactored.api.schemas import vnflcm_v2

objects_v2.register_all()
serializer = base.TackerObjectSerializer()


def v1(body):
    jsonschema.validate(body, vnf_lcm.heal)
    request = objects.HealVnfRequest(**utils.convert_camelcase_to_snakecase(body))
    sent = json.loads(json.dumps(serializer.serialize_entity(None, request)))
    return serializer.deserialize_entity(None, sent).additional_params


def v2(body):
    jsonschema.validate(body, vnflcm_v2.HealVnfRequest_V200)
    return objects_v2.HealVnfRequest.from_dict(body).to_dict().get("additionalParams", {})


json.dump([[v1(body), v2(body)] for body in json.loads(sys.argv[1])], sys.stdout)
