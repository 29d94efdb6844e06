"""Types of what was read from a file: who reads records counts on the fields that their dataclass declares."""

from __future__ import annotations

import functools
import types
import typing
from typing import Any


def check_field_types(read: object) -> None:
    """Refuses a dataclass with a field of another type than is declared; contents of containers are not looked at.

    Raises:
        TypeError: naming the field.
    """
    for name, classes in _declared(type(read)).items():  # type: ignore[arg-type]  # mypy takes no class for hashable
        value = getattr(read, name)
        if not isinstance(value, classes):
            raise TypeError(f"{name} is of type {type(value).__name__}")


@functools.cache
def _declared(cls: type) -> dict[str, tuple[type, ...]]:
    """Field -> what its value is an instance of."""
    return {name: _classes(hint) for name, hint in typing.get_type_hints(cls).items()}


def _classes(hint: Any) -> tuple[type, ...]:
    if isinstance(hint, types.UnionType):
        return tuple(each for arm in typing.get_args(hint) for each in _classes(arm))
    if typing.get_origin(hint) is typing.Literal:
        return tuple({type(value) for value in typing.get_args(hint)})
    return (int, float) if hint is float else (typing.get_origin(hint) or hint,)
