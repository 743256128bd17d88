"""The LCM operation occurrences of Tacker's v1 API: the one it is working on, which no hook is given, and those before."""

import json
import logging
import operator
from typing import Any, List, NamedTuple, Optional, Set

from nodehitch import client
from tacker import objects
from tacker.db import api as transactions
from tacker.db.db_sqlalchemy import api as database
from tacker.db.db_sqlalchemy import models

LOG = logging.getLogger(__name__)

IN_PROGRESS = ("STARTING", "PROCESSING", "ROLLING_BACK")


def running(context: Any, instance: str) -> Optional[Any]:
    """The one occurrence of the instance that is in progress. None, and a warning, if Tacker does not tell."""
    try:
        known = next((each for each in _all(context, instance) if each.operation_state in IN_PROGRESS), None)
        reason = "none is in progress"
    except Exception as error:  # whatever Tacker's database raises: the hook works without it
        known, reason = None, "%s: %s" % (type(error).__name__, error)
    if known is None:
        LOG.warning("nodehitch: VNF instance %s: its operation occurrence is not known (%s); a retry joins no operation", instance, reason)
    return known


class Scaled(NamedTuple):
    """What was scaled since Tacker last gave Heat a template with the sizes of the groups: at an instantiation or a heal."""

    aspects: List[str]
    healed: bool  # by a heal, which writes the sizes as numbers


def scaled(context: Any, instance: str) -> Scaled:
    """What was scaled. The operation in progress does not count."""
    aspects: Set[str] = set()
    healed = False
    for each in sorted(_all(context, instance), key=operator.attrgetter("state_entered_time")):
        if each.operation in ("INSTANTIATE", "HEAL") and each.operation_state == "COMPLETED":
            aspects.clear()
            healed = each.operation == "HEAL"
        elif each.operation == "SCALE" and each.operation_state not in (*IN_PROGRESS, "ROLLED_BACK"):
            aspects.add(json.loads(each.operation_params)["aspect_id"])
    return Scaled(sorted(aspects), healed)


def _all(context: Any, instance: str) -> List[Any]:
    found = objects.VnfLcmOpOccList.get_by_filters(
        context, read_deleted="no", filters={"model": "VnfLcmOpOccs", "field": "vnf_instance_id", "value": instance, "op": "=="})
    return list(found.objects)


def add_parameters(context: Any, occurrence: Optional[Any], parameters: client.Object) -> None:
    """Add to the additionalParams that a retry of the occurrence begins with.

    A retry after the hook was completed does not call it again. VnfLcmOpOcc.save() leaves the
    request out, so it is written to Tacker's database.
    """
    if occurrence is None:
        return
    try:
        request = json.loads(occurrence.operation_params)
        request["additionalParams"] = {**(request.get("additionalParams") or {}), **parameters}
        _write(context, occurrence.id, json.dumps(request))
    except Exception as error:  # as above; docs/tacker.md says what to do if a retry then fails
        LOG.warning("nodehitch: operation occurrence %s: a retry will lack %s (%s %s)",
                    occurrence.id, ", ".join(parameters), type(error).__name__, error)


@transactions.context_manager.writer  # type: ignore[misc]  # Tacker has no types
def _write(context: Any, occurrence: str, request: str) -> None:
    database.model_query(context, models.VnfLcmOpOccs).filter_by(id=occurrence).update(
        {"operation_params": request}, synchronize_session=False)
