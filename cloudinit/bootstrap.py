"""Download the nodehitch agent from its controller and run its installation.

nodehitch-bootstrap.service runs this at first boot and repeats it until it
succeeds. If the image has the agent's package, there is nothing to download. It
needs only the Python of cloud-init. It trusts only the pinned root certificate of
the configuration: no system roots, no proxy, no plain HTTP, no redirect.

    bootstrap.py [CONFIGURATION [AGENT [PACKAGED]]]
"""
import hashlib
import http.client
import json
import os
import re
import ssl
import sys
from urllib.parse import urlsplit

CONFIGURATION = "/etc/nodehitch/agent.yaml"
AGENT = "/usr/local/bin/nodehitch-agent"
PACKAGED = "/usr/bin/nodehitch-agent"
MACHINES = {"x86_64": 62, "aarch64": 183}  # e_machine of an ELF file
LARGEST = 256 << 20  # bytes
IDLE_TIMEOUT = 60  # seconds without a byte


class Refused(Exception):
    """The controller's answer is not an agent for this machine."""


def trust(root, pin):
    """TLS 1.3 with servers that have a certificate of this root, checked by name."""
    try:
        der = ssl.PEM_cert_to_DER_cert(root.strip())
    except ValueError as e:
        sys.exit("the root certificate is no certificate as PEM: %s" % e)
    if "".join(ssl.DER_cert_to_PEM_cert(der).split()) != "".join(root.split()):
        sys.exit("the root certificate is followed by something: expected it alone")
    digest = hashlib.sha256(der).hexdigest()
    if "sha256:" + digest != pin:
        sys.exit("the root certificate is sha256:%s, but the pin is %s: this "
                 "user_data was altered or is inconsistent" % (digest, pin))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=der)  # what was hashed, and no more
    assert context.check_hostname and context.verify_mode == ssl.CERT_REQUIRED
    return context


def download(url, context, agent):
    """Install the controller's agent, completely or not at all."""
    machine = os.uname().machine
    if machine not in MACHINES:
        raise Refused("this machine is %s; there are agents for %s"
                      % (machine, ", ".join(sorted(MACHINES))))
    parts = urlsplit(url)
    if parts.scheme != "https":
        raise Refused("expected https://host:port")
    connection = http.client.HTTPSConnection(
        parts.hostname, parts.port, context=context, timeout=IDLE_TIMEOUT)
    try:
        connection.request("GET", "/v1/agent/" + machine,
                           headers={"User-Agent": "nodehitch-bootstrap"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise Refused("%d %s: %r" % (answer.status, answer.reason, answer.read(300)))
        store(answer, machine, agent)
    finally:
        connection.close()


def store(answer, machine, agent):
    length = answer.getheader("Content-Length") or ""
    if not re.match("^[0-9]{1,9}$", length) or not 20 <= int(length) <= LARGEST:
        raise Refused("Content-Length is %r, expected the size of an agent" % length)
    directory = os.path.dirname(agent)
    os.makedirs(directory, exist_ok=True)
    part = os.path.join(directory, ".nodehitch-agent.part")
    if os.path.lexists(part):
        os.unlink(part)  # of an interrupted attempt
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700)
    try:
        with os.fdopen(descriptor, "wb") as f:
            receive(answer, int(length), machine, f)
            f.flush()
            os.fchmod(f.fileno(), 0o755)
            os.fsync(f.fileno())
        os.rename(part, agent)
    except BaseException:
        os.unlink(part)
        raise
    directory = os.open(directory, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


def receive(answer, length, machine, f):
    received = 0
    while received < length:
        piece = answer.read(min(1 << 16, length - received))
        if not piece:
            raise Refused("the connection was cut after %d of %d bytes" % (received, length))
        if received == 0 and not runs_here(piece, machine):
            raise Refused("the answer is no ELF program for %s: it begins %r" % (machine, piece[:20]))
        f.write(piece)
        received += len(piece)


def runs_here(head, machine):
    return head[:4] == b"\x7fELF" and int.from_bytes(head[18:20], "little") == MACHINES[machine]


def main(configuration=CONFIGURATION, agent=AGENT, packaged=PACKAGED):
    if os.access(packaged, os.X_OK):
        os.execv(packaged, [packaged, "install"])
    with open(configuration, encoding="utf-8") as f:
        config = json.load(f)  # written by user_data as JSON, which is YAML too
    context = trust(config["rootCertificate"], config["pin"])
    for url in config["controllerUrls"]:
        try:
            download(url, context, agent)
        except (OSError, Refused, http.client.HTTPException) as e:
            print("%s: %s" % (url, e), file=sys.stderr, flush=True)
            continue
        print("%s: agent received" % url, flush=True)
        os.execv(agent, [agent, "install"])
    sys.exit("no controller served the agent for this machine; the service tries again")


if __name__ == "__main__":
    main(*sys.argv[1:])
