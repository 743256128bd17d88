"""The calls of each hook, the same for both APIs of Tacker.

No topology is sent: the controller observes the stack itself.
"""

import logging
import os
import time
from typing import Any, Callable, List, Optional, Sequence, Tuple

from nodehitch import client
from nodehitch.tacker import settings

LOG = logging.getLogger(__name__)

CONTROLLER_URLS = "nodehitch_controller_urls"
ROOT_CERTIFICATE = "nodehitch_root_certificate"
CERTIFICATE_LINES = "nodehitch_root_certificate_lines"
PIN = "nodehitch_pin"
JOIN_TOKEN = "nodehitch_join_token"
JOIN_PARAMETERS = (CONTROLLER_URLS, ROOT_CERTIFICATE, CERTIFICATE_LINES, PIN, JOIN_TOKEN)

# What the additionalParams of a HEAL may say of the storage server, by its name in the API. The controller judges the values.
OF_HEAL = {"persistent_volumes": "persistentVolumes", "old_server_is_off": "oldServerIsOff"}


def of_heal(phase: str, parameters: Optional[client.Object]) -> client.Object:
    """What a phase of a HEAL says of the storage server.

    What becomes of the PersistentVolumes is the START's: an END whose START was taken back could not withdraw them any more.
    """
    return {member: parameters[name] for name, member in OF_HEAL.items()
            if parameters and name in parameters and (phase == "start" or name == "old_server_is_off")}


class Hook:
    """One hook of one VNF instance. The deadline of the settings is for the whole of it."""

    def __init__(self, instance: str, occurrence: Optional[str] = None) -> None:
        """occurrence is the id of Tacker's LCM operation occurrence, None if it is not known."""
        self._settings = settings.load()
        self._controller = self._settings.controller
        self._instance = instance
        self._occurrence = occurrence
        self._end = time.monotonic() + self._settings.deadline

    def hand_over(self, package: Callable[[], str], parameters: client.Object, name: Optional[str], vims: Callable[[], Any],
                  stack: Optional[str] = None) -> None:
        """Give the controller the request's parameters and those files of the package that it lacks.

        name is Tacker's vnfInstanceName. package is the folder that has them: only asked for if the request names any.
        vims is SOL003's vimConnectionInfo, with credentials: only asked for if the settings say so.
        """
        spec: client.Object = {"additionalParams": {k: v for k, v in parameters.items() if k not in JOIN_PARAMETERS}}
        if name and name != "vnf-" + self._instance:  # what Tacker calls one without a name
            spec["name"] = "".join(each for each in name if each.isprintable()).strip()
        if stack is not None:
            spec["stackId"] = stack
        if self._settings.send_vim_connection_info:
            spec["vimConnectionInfo"] = vims()
        answer = self._patiently(lambda: self._controller.put_instance(self._instance, spec))
        known = {file["path"]: file["sha256"] for file in answer["files"]}
        paths = answer["missingFiles"] + list(known)
        root = os.path.realpath(package()) if paths else ""
        for path in paths:
            source = os.path.realpath(os.path.join(root, path))
            # What the package lacks, START says.
            if not source.startswith(root + os.sep) or not os.path.isfile(source):
                continue
            if known.get(path) != client.sha256_of(source):
                self._controller.put_file(self._instance, path, source, self._left())

    def start(self, operation: str, **members: Any) -> client.Object:
        """Post the START of an operation, wait for it and return its record."""
        return self._operate(operation, "START", members)

    def start_heal(self, emptied: Sequence[str], why: str, **members: Any) -> None:
        """Post the START of a HEAL. emptied are the volumes that Tacker replaces by empty ones, and why.

        The controller learns of them from Heat, when they are gone.
        """
        record = self.start("HEAL", **members)
        if emptied and record.get("persistentVolumes") == "keep":
            raise client.Error("the heal is to keep the PersistentVolumes of the storage server, and Tacker would replace the volume %s by an empty "
                               "one: %s. Nothing was changed. Fail the operation" % (", ".join(emptied), why))

    def end(self, operation: str, **members: Any) -> None:
        """Post the END of an operation and wait for it."""
        self._operate(operation, "END", members)

    def rolled_back(self, operation: str, **members: Any) -> None:
        """Post an END for what Heat has taken back. The operation may have had its own, COMPLETED."""
        self._operate(operation, "END", members, "ROLLBACK")

    def terminated(self) -> None:
        """Post the END of TERMINATE, wait for it and forget the instance: no other hook comes."""
        try:
            self.end("TERMINATE")
            self._patiently(lambda: self._controller.delete_instance(self._instance))
        except client.Problem as problem:
            if problem.status != 404:
                raise

    def servers(self) -> List[str]:
        """The servers that the controller knows of the instance."""
        return list(self._patiently(lambda: self._controller.get_instance(self._instance))["nodes"])

    def ready(self, server: str) -> None:
        """Wait until the node of a Nova server is Ready."""
        while not self._patiently(lambda: self._controller.get_node(server))["ready"]:
            if time.monotonic() > self._end:
                raise client.Error("server %s: was not Ready after %d s; hitchctl describe node says why" % (server, self._settings.deadline))
            time.sleep(client.PAUSE_SECONDS)

    def join_parameters(self) -> client.Object:
        """The parameters of the base HOT by which new servers reach and trust the controller."""
        trust = self._patiently(self._controller.trust)
        return {CONTROLLER_URLS: trust["urls"], ROOT_CERTIFICATE: trust["rootCertificate"],
                CERTIFICATE_LINES: trust["rootCertificate"].splitlines(), PIN: trust["pin"],
                JOIN_TOKEN: self._patiently(lambda: self._controller.join_token(self._instance))}

    def vim(self) -> Optional[Tuple[str, client.Object]]:
        """The name of the cluster's VIM and the access that it is to have. None if the instance gives none."""
        try:
            access = self._patiently(lambda: self._controller.cluster_access(self._instance))
        except client.Problem as problem:
            if problem.status != 404:
                raise
            LOG.info("no VIM is registered: %s", problem)
            return None
        parameters = self._patiently(lambda: self._controller.get_instance(self._instance))["additionalParams"]
        return parameters["k8s_cluster_installation_param"].get("vim_name", "kubernetes_vim_" + self._instance), access

    def may_have_vim(self) -> bool:
        """Whether the instance has a cluster, or the controller does not know the instance."""
        try:
            instance = self._patiently(lambda: self._controller.get_instance(self._instance))
        except client.Problem as problem:
            if problem.status != 404:
                raise
            return True
        return "k8s_cluster_installation_param" in instance["additionalParams"]

    def _operate(self, operation: str, phase: str, members: client.Object, step: Optional[str] = None) -> client.Object:
        request = {key: value for key, value in members.items() if value not in (None, [])}
        request.update(operation=operation, phase=phase)
        if self._occurrence is not None:
            request["idempotencyKey"] = "%s:%s:%s" % (self._occurrence, operation, step or phase)
        return self._controller.operate(self._instance, request, self._left())

    def _patiently(self, call: Any) -> Any:
        return client.patiently(self._end, call)

    def _left(self) -> float:
        return max(1, self._end - time.monotonic())
