"""The LCM operation occurrence that Tacker's v1 API is working on, which no hook is given."""

import json
import logging
from typing import Any, Optional

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
        found = objects.VnfLcmOpOccList.get_by_filters(
            context, read_deleted="no", filters={"model": "VnfLcmOpOccs", "field": "vnf_instance_id", "value": instance, "op": "=="})
        known = next((each for each in found.objects if each.operation_state in IN_PROGRESS), None)
        reason = "none is in progress"
    except Exception as error:  # whatever Tacker's database raises: the hook works without it
        known, reason = None, "%s: %s" % (type(error).__name__, error)
    if known is None:
        LOG.warning("nodehitch: VNF instance %s: its operation occurrence is not known (%s); a retry joins no operation", instance, reason)
    return known


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
