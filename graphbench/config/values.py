"""One value against one key: conversion, type, range, allowed names, and the message when it does not fit."""

from __future__ import annotations

import math
import re
import types
import typing
from typing import Any

from graphbench import registry
from graphbench.config.key import Key
from graphbench.errors import UserError, nearest
from graphbench.registry import UNSET, Parameter

MOST_STEPS = 10_000
"""Columns of an encoding: more are a typing mistake."""
_MOST_DIGITS = 300
"""Python turns neither longer texts (4,300) nor larger integers (1e308) into every kind of number."""
_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")
_RANGE = re.compile(r"\s*range\(\s*(-?\d+)\s*(?:,\s*(-?\d+)\s*)?(?:,\s*(-?\d+)\s*)?\)\s*")
_NAMES = {bool: "true or false", int: "an integer", float: "a number", str: "a string", list: "a list"}


def check(key: Key, value: Any, name: str, where: str) -> Any:
    """The value as the key wants it.

    Strings such as ``1e-5`` (YAML 1.1 reads them as text) become numbers, integers are accepted where a float is
    expected, tuples become lists. Nothing else is converted.

    Args:
        key: key, with the values that it allows.
        value: value that was received.
        name: dotted name of the key.
        where: ``file:line`` or ``command line``.

    Raises:
        UserError: wrong type, out of range, or not among the allowed values.
    """
    kind: Any = key.kind
    if key.optional and (value is None or (isinstance(value, str) and value.lower() == "none")):
        return None
    if value is None and kind is str:
        return _text_of_null(key, name, where)
    if key.switched_on is not None and isinstance(value, bool):
        value = key.switched_on if value else 0
    if kind in (int, float) and _is_huge(value):
        raise UserError(f"{where}: {name} received a number of more than {_MOST_DIGITS} digits.")
    if isinstance(value, str) and kind in (int, float) and _NUMBER.fullmatch(value.strip()):
        value = float(value) if kind is float or not re.fullmatch(r"[-+]?\d+", value.strip()) else int(value)
    if kind is float and isinstance(value, str) and value.strip().lower() in ("inf", ".inf", "-inf", "-.inf"):
        value = float(value.strip().lower().replace(".", ""))
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if kind is list and isinstance(value, tuple):
        value = list(value)
    if type(value) is not kind:
        raise _mismatch(key, value, name, where)
    if isinstance(value, float) and (math.isnan(value) or (math.isinf(value) and not key.no_limit)):
        raise UserError(f"{where}: {name} must be a finite number, received {value}.")
    if kind is int and abs(value) >= 2**63:
        raise UserError(f"{where}: {name} must be below 2^63, received {value}.")
    if kind is not list and key.minimum is not None and value < key.minimum:
        raise UserError(f"{where}: {name} must be at least {key.minimum:g}, received {value!r}.")
    if kind is not list and key.maximum is not None and value > key.maximum:
        raise UserError(f"{where}: {name} must be at most {key.maximum:g}, received {value!r}.")
    if key.item is not None:
        item = Key(None, "", holds=key.item, minimum=key.minimum, maximum=key.maximum)
        value = [check(item, element, f"{name}[{index}]", where) for index, element in enumerate(value)]
    fits = bool(key.pattern) and re.fullmatch(key.pattern, str(value)) is not None
    if key.allowed is not None and value not in key.allowed and not fits:
        names = [str(choice) for choice in key.allowed]
        hint = nearest(str(value), names)
        similar = f" Did you mean '{hint}'?" if hint else ""
        raise UserError(f"{where}: {name} received {value!r}.{similar} Allowed: {', '.join(names)}.")
    return value


def _text_of_null(key: Key, name: str, where: str) -> str:
    """Value of a null in a key that holds text: ``none`` where that is a value of the key, else not set."""
    named = {component for namespace in key.namespaces for component in registry.names(namespace)}
    if str(key.default).lower() == "none" or "none" in {*named, *(key.allowed or ())}:
        return "none"  # GraphGPS writes `name: none` and `name: None`, others `name:` or `name: null`
    if key.default == "":
        return ""
    raise _mismatch(key, None, name, where)


def key_of(parameter: Parameter) -> Key | None:
    """The key that a constructor parameter stands for; None when a YAML cannot express its type."""
    annotation = parameter.annotation
    default = None if parameter.default is UNSET else parameter.default
    optional = False
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        members = [member for member in typing.get_args(annotation) if member is not type(None)]
        optional = len(members) < len(typing.get_args(annotation))
        if len(members) != 1:
            return None
        annotation = members[0]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return Key(default, "", holds=type(arguments[0]), allowed=arguments, optional=optional)
    if origin in (list, tuple) or annotation in (list, tuple):
        plain = [argument for argument in arguments if argument in (bool, int, float, str)]
        item = plain[0] if plain else None
        return Key(None if default is None else list(default), "", holds=list, optional=optional, item=item)
    if annotation in (bool, int, float, str):
        return Key(default, "", holds=annotation, optional=optional, no_limit=parameter.no_limit)
    return None


def parse_range(text: str, name: str, where: str) -> list[int]:
    """``range(1, 17)`` as the numbers it stands for, without evaluating anything.

    Raises:
        UserError: the text is something else, or more than :data:`MOST_STEPS` numbers.
    """
    match = _RANGE.fullmatch(text)
    if match is None:
        raise UserError(f"{where}: {name} must look like range(1, 17), received {text!r}.")
    numbers = [int(group) for group in match.groups() if group is not None]
    if len(numbers) == 3 and numbers[2] == 0:
        raise UserError(f"{where}: {name} has step 0, received {text!r}.")
    steps = range(*numbers)
    if len(steps) > MOST_STEPS:
        raise UserError(
            f"{where}: {name} received {text!r}, {len(steps):,} steps. At most {MOST_STEPS:,} are computed."
        )
    return list(steps)


def _mismatch(key: Key, value: Any, name: str, where: str) -> UserError:
    if isinstance(value, dict):
        return UserError(f"{where}: {name} is not a section; it takes {_NAMES[key.kind]}.")
    received = "nothing" if value is None else f"{value!r} ({type(value).__name__})"
    allowed = f" Allowed: {', '.join(map(str, key.allowed))}." if key.allowed else ""
    if key.kind is list and isinstance(value, str):
        allowed = f" Write [{value}]."
    return UserError(f"{where}: {name} must be {_NAMES[key.kind]}, received {received}.{allowed}")


def _is_huge(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) > _MOST_DIGITS
    return isinstance(value, int) and abs(value) >= 10**_MOST_DIGITS
