"""Calls one hook as Tacker does: by keyword, of the driver that its entry point names.

Standard input says what Tacker knows, standard output what it knows then.
"""

import os

if os.environ.get("HOOK_UNDER_EVENTLET"):  # as tacker-conductor runs
    import eventlet
    eventlet.monkey_patch()

import importlib.metadata  # noqa: E402
import json  # noqa: E402
import logging  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
from types import SimpleNamespace  # noqa: E402


def objects(value):
    """Objects with attributes, as Tacker has them, of JSON objects; additional_params stay plain."""
    if isinstance(value, dict):
        return SimpleNamespace(**{k: v if k in ("additional_params", "access_info") else objects(v) for k, v in value.items()})
    return [objects(each) for each in value] if isinstance(value, list) else value


def main():
    logging.basicConfig(level=logging.INFO)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also if the shell that began the test ignores it
    said = json.load(sys.stdin)
    point, = [each for each in importlib.metadata.distribution("nodehitch-tacker").entry_points if each.group == "tacker.tacker.mgmt.drivers"]
    driver = point.load()()
    assert driver.get_type() == point.name
    from tacker.db import api as transactions
    transactions.get_engine()  # tacker-conductor has used its database before it calls a hook
    if said["hook"].startswith("heal_"):
        said["request"].setdefault("additional_params", {})  # Tacker's object has them always
    instance, request = objects(said["vnf_instance"]), objects(said["request"])
    keywords = dict(context=SimpleNamespace(project_id="administrators", is_admin=True), vnf_instance=instance, **{said["request_name"]: request}, **said["keywords"])
    if not said["hook"].startswith("modify_information"):
        keywords.update(grant=None, grant_request=None)
    error = None
    beats = []  # of another greenlet, as tacker-conductor has them for its heartbeat

    def beat():
        while True:
            eventlet.sleep(0.02)
            beats.append(1)

    if os.environ.get("HOOK_UNDER_EVENTLET"):
        eventlet.spawn(beat)
    try:
        getattr(driver, said["hook"])(**keywords)
    except Exception as raised:
        error = {"class": type(raised).__name__, "message": str(raised)}
    info = getattr(instance, "instantiated_vnf_info", None)
    json.dump({"error": error, "beats": len(beats), "python": sys.version.split()[0], "request": getattr(request, "additional_params", None),
               "instantiated": getattr(info, "additional_params", None)}, sys.stdout)


main()
