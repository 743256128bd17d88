"""What Tacker's v1 API keeps of a stack's parameters, and how it alters them.

Tacker keeps them as str() of a dict and reads that as YAML at the next heal, scaling or change of
connectivity: what Python writes with a backslash or in other quotes is another text then, and
another one each time. A base HOT made now has no such parameter. For those that are in the field,
an Unkept text is the right one for Heat and an empty one for Tacker, and each operation takes
such texts from where they do not change.
"""

import ast
import logging
from typing import Any, Callable, Iterable, List, Tuple

import yaml

from nodehitch import client
from tacker.db import api as transactions
from tacker.db.db_sqlalchemy import api as database
from tacker.db.vnfm import vnfm_db

LOG = logging.getLogger(__name__)

KEY = "stack_param"
LARGEST = 32000  # bytes: a heal may double them, and Tacker's column has 65535

_KINDS: Tuple[Tuple[str, Callable[[str], bool]], ...] = (
    ("line breaks", lambda c: c in "\n\r"), ("backslashes", lambda c: c == "\\"), ("quotes", lambda c: c in "'\""),
    ("characters that are not printable", lambda c: not c.isprintable() and c not in "\n\r"),
)


class Unkept(str):
    """A text that Tacker does not keep: str() of a dict has an empty one in its place."""

    def __repr__(self) -> str:
        return "''"


def alters(text: str) -> str:
    """What a text holds that Tacker alters, "" if there is nothing."""
    return " and ".join(name for name, is_one in _KINDS if any(is_one(each) for each in text))


def texts(value: Any, pointer: str) -> List[Tuple[str, str]]:
    """Each text in a value that Tacker alters, by its JSON pointer, and what it holds."""
    if isinstance(value, str):
        found = alters(value)
        return [(pointer, found)] if found else []
    if isinstance(value, dict):
        return [each for name, inner in value.items()
                for at in [pointer + "/" + str(name).replace("~", "~0").replace("/", "~1")]
                for each in texts(str(name), at) + texts(inner, at)]
    if isinstance(value, (list, tuple)):
        return [each for i, inner in enumerate(value) for each in texts(inner, "%s/%d" % (pointer, i))]
    return []


def for_heat(value: Any) -> Any:
    """The value, whose str() Tacker reads as it was, but for empty texts."""
    if isinstance(value, str):
        return Unkept(value) if alters(value) else str(value)
    if isinstance(value, dict):
        return {name: for_heat(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [for_heat(inner) for inner in value]
    return value


def mend(context: Any, instance: str, at_need: bool = False) -> bool:
    """Make what Tacker keeps of an instance's parameters a text that does not change any more. True if it was another one.

    At need it does so only if Tacker cannot read the text, or not keep it after one more heal.
    """
    text = _read(context, instance)
    try:
        stable = str(for_heat(ast.literal_eval(text or "{}")))
    except (ValueError, SyntaxError) as error:
        LOG.warning("nodehitch: VNF instance %s: what Tacker keeps of its stack's parameters is no Python: %s", instance, error)
        return False
    if text in (None, stable) or at_need and _readable(text) and len(text.encode()) < LARGEST:
        return False
    _write(context, instance, stable)
    LOG.info("nodehitch: VNF instance %s: Tacker keeps of its stack's parameters only texts that it does not alter", instance)
    return True


def _readable(text: str) -> bool:
    try:
        return isinstance(yaml.safe_load(text), dict)
    except yaml.YAMLError:
        return False


@transactions.context_manager.reader  # type: ignore[misc]  # Tacker has no types
def _read(context: Any, instance: str) -> Any:
    row = database.model_query(context, vnfm_db.VNFAttribute).filter_by(vnf_id=instance, key=KEY).first()
    return row and row.value


@transactions.context_manager.writer  # type: ignore[misc]  # Tacker has no types
def _write(context: Any, instance: str, text: str) -> None:
    database.model_query(context, vnfm_db.VNFAttribute).filter_by(vnf_id=instance, key=KEY).update({"value": text}, synchronize_session=False)


def refuse(parameters: client.Object, names: Iterable[str]) -> None:
    """Refuse a request that has texts in these parameters that Tacker alters."""
    faults: List[str] = []
    for name in sorted(set(names) & set(parameters)):
        instead = "give a value without them, or make it the parameter's default in the base HOT"
        if name.endswith("_user_data"):
            instead = ("put the text into a software config of the stack's project "
                       "(`openstack software config create --config-file FILE --group ungrouped NAME`) and give its id")
        faults += ["%s: holds %s, which Tacker's v1 API alters in parameters of the base HOT at each heal; %s" % (*each, instead)
                   for each in texts(parameters[name], "/additionalParams/" + name)]
    if faults:
        raise client.Error("the request is not valid: " + "; ".join(faults))
