"""The settings of the Tacker integration: /etc/nodehitch/tacker.conf."""

import configparser
import os
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

from nodehitch import client

FILE = "/etc/nodehitch/tacker.conf"
ENVIRONMENT = "NODEHITCH_TACKER_CONF"  # names another file
SECTION = "nodehitch"
UNUSED = ("vnf_packages",)  # once a key: Tacker's own configuration says it
LONGEST = 86400  # seconds; the controller takes no longer deadline


class Settings(NamedTuple):
    """The content of the file, checked."""

    controller: client.Client
    deadline: int
    send_vim_connection_info: bool


def load() -> Settings:
    """Read the file. The error has everything that is wrong with it."""
    path = os.environ.get(ENVIRONMENT, FILE)
    parser = configparser.ConfigParser(interpolation=None, default_section="")
    try:
        with open(path, encoding="utf-8") as file:
            parser.read_file(file)
    except (OSError, ValueError, configparser.Error) as error:
        raise client.Error("%s: %s" % (path, " ".join(str(error).split()))) from None
    given = dict(parser[SECTION]) if parser.has_section(SECTION) else {}
    faults = ["[%s]: unknown section; expected [%s] only" % (name, SECTION) for name in parser.sections() if name != SECTION]
    faults += ["%s: unknown key; expected one of %s" % (key, ", ".join(_KEYS)) for key in given if key not in (*_KEYS, *UNUSED)]
    values: Dict[str, Any] = {}
    for key, (default, read) in _KEYS.items():
        text = given.get(key, default).strip()
        try:
            if not text:
                raise ValueError("is missing")
            values[key] = read(text)
        except (OSError, ValueError, client.Error) as error:
            faults.append("%s: %s" % (key, error))
    if faults:
        raise client.Error("%s: %s" % (path, "; ".join(faults)))
    try:
        controller = client.Client(values["urls"], values["root_certificate"], values["pin"], values["token_file"])
    except client.Error as error:
        raise client.Error("%s: %s" % (path, error)) from None
    return Settings(controller, values["deadline"], values["send_vim_connection_info"])


def _urls(text: str) -> List[str]:
    return text.replace(",", " ").split()


def _content(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()


def _seconds(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= LONGEST:
        raise ValueError("is %r; expected seconds, 1 to %d" % (text, LONGEST))
    return int(text)


def _truth(text: str) -> bool:
    try:
        return configparser.ConfigParser.BOOLEAN_STATES[text.lower()]
    except KeyError:
        raise ValueError("is %r; expected true or false" % text) from None


# Each key, its default, and what its text means.
_KEYS: Dict[str, Tuple[str, Callable[[str], Any]]] = {
    "urls": ("", _urls),
    "root_certificate": ("", _content),
    "pin": ("", str),
    "token_file": ("", client.read_token),
    "deadline": ("1800", _seconds),
    "send_vim_connection_info": ("false", _truth),
}
