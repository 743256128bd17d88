"""A client of the API of nodehitch's controller (/v1/openapi.yaml), of the standard library only.

    controller = Client(["https://controller:8443"], root_certificate=pem, pin=pin, token=token)
    controller.put_instance(vnf, {"additionalParams": parameters})
    controller.operate(vnf, {"operation": "INSTANTIATE", "topology": topology})

It trusts only the given root certificate: no certificates of the system, no proxy, no redirect.
Objects of the API are dictionaries, with the names of the API. Every error that a method raises
for a reason outside the program is an Error.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import logging
import os
import re
import ssl
import stat
import time
import uuid
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, TypeVar
from urllib.parse import quote, urlsplit

LOG = logging.getLogger(__name__)

Object = Dict[str, Any]
T = TypeVar("T")

CONNECT_SECONDS = 10
ANSWER_SECONDS = 90  # more than the longest wait of the API
PAUSE_SECONDS = 2  # before the next attempt, if the controller names no time
GRACE_SECONDS = 5  # in which the controller ends an operation whose deadline has passed
WHOLE_BYTES = 1 << 20  # a larger file is sent in pieces
PIECE_BYTES = 8 << 20
LARGEST_ANSWER = 64 << 20


class Error(Exception):
    """What happened, as one line for a person.

    retry_after is the number of seconds after which the same call may succeed, None if
    waiting does not help.
    """

    retry_after: Optional[float] = None


class Unreachable(Error):
    """No controller answered."""

    def __init__(self, failures: Sequence[str], retry_after: Optional[float]) -> None:
        super().__init__("no controller answered: " + "; ".join(failures))
        self.retry_after = retry_after


class Fault(NamedTuple):
    """One fault of a request: a JSON pointer from the root of its body, and what is wrong there."""

    pointer: str
    message: str


class Problem(Error):
    """The controller refused a call: problem details of RFC 9457.

    type is urn:nodehitch:problem:<name> and stable; invalid_params are all faults of the request.
    """

    def __init__(self, document: Object, status: int, retry_after: Optional[float] = None) -> None:
        self.type = str(document.get("type", "about:blank"))
        self.title = str(document.get("title", http.client.responses.get(status, status)))
        self.status = status
        self.detail = str(document.get("detail", ""))
        self.invalid_params = [Fault(each["pointer"], each["message"]) for each in document.get("invalidParams") or []]
        if retry_after is None and status in (429, 502, 503):
            retry_after = PAUSE_SECONDS
        self.retry_after = retry_after
        super().__init__(_sentence(self.title, self.detail, ["%s: %s" % each for each in self.invalid_params]))


class OperationFailed(Error):
    """An operation is FAILED, or could not be ended at its deadline. record is the API's Operation."""

    def __init__(self, record: Object) -> None:
        self.record = record
        error = record.get("error") or {}
        detail = error.get("detail", "")
        # The controller's detail has what the nodes report, except if somebody has cancelled the operation.
        nodes = ["%s (%s): %s, %s" % (each["name"], each["nodeId"], each.get("reason", "not ready"), each.get("message", ""))
                 for each in record.get("targets") or [] if not each["ready"] and (each.get("message") or each["nodeId"]) not in detail]
        faults = ["%s: %s" % (each["pointer"], each["message"]) for each in error.get("invalidParams") or []]
        super().__init__("%s %s (%s) is %s: %s" % (
            record["operation"], record["phase"], record["id"], record["state"],
            _sentence(error.get("title", "its deadline has passed"), detail, nodes + faults)))


class Client:
    """A controller, at each of its URLs. It may be used by one thread at a time."""

    def __init__(self, urls: Sequence[str], root_certificate: str, pin: str, token: str) -> None:
        """urls are https://host[:port], tried in this order, the last that answered first.

        root_certificate is PEM, pin sha256:<hex> of its DER, token a bearer token.
        """
        self._addresses = [_address(url) for url in urls]
        if not self._addresses:
            raise Error("urls: found none, expected https://host:port of at least one controller")
        self._context = trust_only(root_certificate, pin)
        self._token = token

    def put_instance(self, instance: str, spec: Object) -> Object:
        """Give an instance its parameters. The answer names missingFiles and files.

        It replaces those that are there, whoever gave them: for the owner of the instance, who
        has them whole, as Tacker has in each request. A call is repeated after a lost answer,
        which a condition on what it has replaced itself would refuse. Who only alters what
        get_instance shows uses `hitchctl apply`.
        """
        return self._json("PUT", _of(instance), spec)

    def get_instance(self, instance: str) -> Object:
        """The instance, with its secrets redacted."""
        return self._json("GET", _of(instance))

    def delete_instance(self, instance: str) -> None:
        """Forget an instance that has no live node."""
        self._call("DELETE", _of(instance))

    def join_token(self, instance: str) -> str:
        """The secret that user_data of the instance's servers carries."""
        return str(self._json("GET", _of(instance) + "/join_token")["token"])

    def cluster_access(self, instance: str) -> Object:
        """How a VIM uses the instance's cluster: endpoint, caCertificate, token, tokenExpiresAt."""
        return self._json("GET", _of(instance) + "/cluster_access")

    def trust(self) -> Object:
        """urls, rootCertificate and pin: what user_data needs to trust the controller."""
        return self._json("GET", "/v1/trust")

    def get_node(self, node: str) -> Object:
        """One node; its id is the Nova server's."""
        return self._json("GET", "/v1/nodes/" + quote(node, safe=""))

    def put_file(self, instance: str, path: str, source: str, seconds: float = 1800) -> Object:
        """Upload the file `source` as `path` of the VNF package.

        A large file is sent in pieces. What has arrived stays there, also if the program ends:
        the next call goes on from there.
        """
        end = time.monotonic() + seconds
        size, digest = os.path.getsize(source), sha256_of(source)
        target = _of(instance) + "/files/" + quote(path)

        def send(body: bytes, content_range: str = "") -> _Answer:
            headers = {"X-Checksum-Sha256": digest, "Content-Type": "application/octet-stream"}
            if content_range:
                headers["Content-Range"] = "bytes %s/%d" % (content_range, size)
            return patiently(end, lambda: self._call("PUT", target, body, headers))

        with open(source, "rb") as file:
            if size <= WHOLE_BYTES:
                return send(file.read()).json()
            answer = send(b"", "*")
            while answer.status == 308:
                if time.monotonic() > end:
                    raise Error("uploading %s took more than %d s" % (path, seconds))
                arrived = re.match(r"bytes=0-(\d+)$", answer.headers.get("Range") or "")
                first = int(arrived.group(1)) + 1 if arrived else 0
                file.seek(first)
                piece = file.read(PIECE_BYTES)
                answer = send(piece, "%d-%d" % (first, first + len(piece) - 1))
            return answer.json()

    def operate(self, instance: str, request: Object, seconds: float = 1800) -> Object:
        """Post one phase of an operation, wait until it has COMPLETED, and return its record.

        A request without an idempotencyKey gets one, so a lost answer starts nothing twice. The
        stack that Heat still changes, a cloud or a controller that does not answer are waited
        for. After so many seconds, and if an exception interrupts the wait, the operation is
        cancelled. Raises OperationFailed if the operation ends otherwise than COMPLETED.
        """
        end = time.monotonic() + seconds
        request = {"idempotencyKey": str(uuid.uuid4()), **request}
        operations = _of(instance) + "/operations"
        given = 0

        def post() -> Object:
            nonlocal given
            given = max(1, int(end - time.monotonic()))
            return self._json("POST", operations, {**request, "deadlineSeconds": given})

        record = patiently(end, post)
        end = time.monotonic() + given  # a slow cloud was asked first: the operation begins with this answer
        path = "%s/%d" % (operations, record["sequence"])
        name = "%s %s (%s)" % (record["operation"], record["phase"], record["id"])
        try:
            LOG.info("waiting for %s until %s", name, record["deadline"])
            while record["state"] == "PROCESSING" and time.monotonic() < end + GRACE_SECONDS:
                left = end + GRACE_SECONDS - time.monotonic()
                wait = path + "?wait=%ds" % max(1, min(60, int(left)))
                record = patiently(end + GRACE_SECONDS, lambda: self._json("GET", wait))
        except BaseException:
            self._cancel(path)
            raise
        if record["state"] == "PROCESSING":
            record = self._cancel(path) or record
        if record["state"] != "COMPLETED":
            raise OperationFailed(record)
        LOG.info("%s is COMPLETED", name)
        return record

    def _cancel(self, path: str) -> Optional[Object]:
        """The cancelled record. None if the operation cannot be cancelled; what follows tells why."""
        try:
            return self._json("POST", path + "/cancel")
        except Error:
            return None

    def _json(self, method: str, path: str, body: Optional[Object] = None) -> Object:
        if body is None:
            return self._call(method, path).json()
        return self._call(method, path, json.dumps(body).encode(), {"Content-Type": "application/json"}).json()

    def _call(self, method: str, path: str, body: bytes = b"", headers: Optional[Dict[str, str]] = None) -> _Answer:
        """Call the first controller that answers."""
        failures: List[str] = []
        untrusted = True
        for address in list(self._addresses):
            try:
                answer = self._ask(address, method, path, body, headers or {})
            except (OSError, http.client.HTTPException) as failure:
                untrusted = untrusted and isinstance(failure, ssl.SSLCertVerificationError)
                failures.append("https://%s:%d: %s" % (address.host, address.port, failure or type(failure).__name__))
                continue
            self._addresses.remove(address)
            self._addresses.insert(0, address)
            if answer.status < 300 or answer.status == 308:
                return answer
            raise answer.problem()
        raise Unreachable(failures, None if untrusted else PAUSE_SECONDS)

    def _ask(self, address: _Address, method: str, path: str, body: bytes, headers: Dict[str, str]) -> _Answer:
        connection = http.client.HTTPSConnection(address.host, address.port, context=self._context, timeout=CONNECT_SECONDS)
        try:
            connection.connect()
            connection.sock.settimeout(ANSWER_SECONDS)
            connection.request(method, path, body, {"Authorization": "Bearer " + self._token, "User-Agent": "nodehitch-client", **headers})
            answer = connection.getresponse()
            content = answer.read(LARGEST_ANSWER + 1)
            if len(content) > LARGEST_ANSWER:
                raise http.client.HTTPException("the answer has more than %d bytes" % LARGEST_ANSWER)
            if answer.length:  # read with a limit does not say that the answer was cut
                raise http.client.IncompleteRead(content, answer.length)
            return _Answer(answer.status, answer.headers, content)
        finally:
            connection.close()


def patiently(end: float, call: Callable[[], T]) -> T:
    """Call until it succeeds or waiting does not help, at most until time.monotonic() is end."""
    while True:
        try:
            return call()
        except Error as error:
            pause = error.retry_after
            if pause is None or time.monotonic() + pause > end:
                raise
        time.sleep(pause)


def trust_only(root_certificate: str, pin: str) -> ssl.SSLContext:
    """TLS 1.3 with servers that have a certificate of this root, checked by name."""
    several = "root certificate: found more than one certificate as PEM; expected the root alone"
    if root_certificate.count("-----BEGIN CERTIFICATE-----") > 1:  # Python decodes all as one, or fails, by their lengths
        raise Error(several)
    try:
        der = ssl.PEM_cert_to_DER_cert(root_certificate.strip())
    except ValueError as error:
        raise Error("root certificate: expected one certificate as PEM: %s" % error) from None
    if "".join(ssl.DER_cert_to_PEM_cert(der).split()) != "".join(root_certificate.split()):
        raise Error(several)
    found = "sha256:" + hashlib.sha256(der).hexdigest()
    if found != pin:
        raise Error("root certificate: is %s, but the pin is %s; one of the two belongs to another controller" % (found, pin))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_verify_locations(cadata=der)  # what was hashed, and no more
    except ssl.SSLError as error:
        raise Error("root certificate: expected one certificate as PEM: %s" % error) from None
    if context.cert_store_stats()["x509"] != 1:  # OpenSSL reads all that one block has
        raise Error(several)
    return context


def read_token(path: str) -> str:
    """The token in a file that nobody but its owner can read."""
    try:
        with open(path, encoding="ascii") as file:
            found = os.fstat(file.fileno())
            mode = stat.S_IMODE(found.st_mode)
            token = file.read().strip()
    except (OSError, ValueError) as error:
        raise Error("token file: %s" % error) from None
    if found.st_uid not in (0, os.geteuid()):
        raise Error("token file %s: belongs to user %d, who can use the token; expected user %d or root" % (path, found.st_uid, os.geteuid()))
    if mode & 0o077:
        raise Error("token file %s: has mode %04o, so that others than its owner can use the token; expected 0600: chmod 600 %s" % (path, mode, path))
    if not re.match(r"[!-~]+$", token):
        raise Error("token file %s: expected one token, as hitchctl create token prints it" % path)
    return token


def sha256_of(path: str) -> str:
    """The digest of a file's content, in lower-case hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            digest.update(piece)
    return digest.hexdigest()


class _Address(NamedTuple):
    host: str
    port: int


class _Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    content: bytes

    def json(self) -> Object:
        try:
            value = json.loads(self.content)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise Error("the controller answered %d with no JSON object: %r" % (self.status, self.content[:200]))
        return value

    def problem(self) -> Problem:
        seconds = self.headers.get("Retry-After") or ""
        return Problem(self.json(), self.status, float(seconds) if re.match(r"\d{1,5}$", seconds) else None)


def _address(url: str) -> _Address:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or 443
    except ValueError:
        host = None
    if not host or parts.scheme != "https" or parts.path not in ("", "/") or parts.query or parts.username:
        raise Error("URL %r: expected https://host:port of a controller" % url)
    return _Address(host, port)


def _of(instance: str) -> str:
    return "/v1/vnf_instances/" + quote(instance, safe="")


def _sentence(title: str, detail: str, more: Sequence[str]) -> str:
    return ": ".join(each for each in (title, detail, "; ".join(more)) if each)
