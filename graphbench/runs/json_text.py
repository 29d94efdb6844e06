"""JSON that every reader accepts: NaN and infinity become null."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

_LINE = json.JSONEncoder(allow_nan=False)
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def dumps(value: Any, indent: int | None = None) -> str:
    """``value`` as JSON text; tuples become lists, keys become strings, non-finite floats become null."""
    try:
        return _LINE.encode(value) if indent is None else json.dumps(value, indent=indent, allow_nan=False)
    except ValueError:  # a NaN somewhere: rare, so that only then every value is looked at
        return json.dumps(_plain(value), indent=indent, allow_nan=False)


def parse_object(text: str) -> tuple[dict[str, Any], dict[str, str]]:
    """An object, and the canonical text of each of its members by key; what many texts share is parsed once.

    Texts with an indent of one, as :func:`dumps` writes them, are cut into members, and the values of those seen lately
    are given again: the same objects, not to be changed. Members that can each be parsed make up the object, so that
    wherever the cuts fall, the result is that of the whole text.

    Raises:
        ValueError: no JSON.
        AttributeError: another kind of JSON.
    """
    if text.startswith('{\n "') and text.endswith("\n}\n"):
        try:
            members = [_member(member) for member in text[4:-3].split(',\n "')]
        except ValueError:
            pass
        else:
            return {key: value for key, value, _ in members}, {key: written for key, _, written in members}
    content = json.loads(text)
    return content, {key: _CANONICAL.encode({key: value})[1:-1] for key, value in content.items()}


def dumps_with_checksum(value: Any) -> str:
    """An object as JSON text with a checksum among its members: against bits that change on a disk."""
    content, members = parse_object(dumps(value, indent=1) + "\n")
    return dumps({**content, "checksum": _checksum(members)}, indent=1) + "\n"


def loads_with_checksum(text: str) -> dict[str, Any]:
    """Inverse of :func:`dumps_with_checksum`; text without a checksum is read as it is.

    Raises:
        ValueError: no JSON, or not what was written: its checksum is another one.
        AttributeError: another kind of JSON.
    """
    content, members = parse_object(text)
    members.pop("checksum", None)
    if content.pop("checksum", None) not in (None, checksum := _checksum(members)):
        raise ValueError(f"not what was written: its checksum is {checksum}")
    return content


def _checksum(members: Mapping[str, str]) -> str:
    """Checksum of the canonical members of an object without its checksum."""
    written = ",".join([members[key] for key in sorted(members)])
    return hashlib.sha256(f"{{{written}}}".encode()).hexdigest()[:16]


@functools.lru_cache(maxsize=1024)
def _member(text: str) -> tuple[str, Any, str]:
    """Key and value of a member, whose text lacks the first quotation mark, and its canonical text."""
    content = json.loads('{"' + text + "}")
    ((key, value),) = content.items()
    return key, value, _CANONICAL.encode(content)[1:-1]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(element) for element in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
