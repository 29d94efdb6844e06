"""Configuration keys of a section of a sweep file, and grids over them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

from graphbench.config.foreign_names import our_key
from graphbench.config.schema import SCHEMA
from graphbench.config.values import check
from graphbench.errors import UserError, unknown
from graphbench.sweeps.document import LocatedValue, tied_keys


def config_keys(section: LocatedValue, what: str, table: Sequence[str] = ()) -> dict[str, LocatedValue]:
    """The configuration keys of a section.

    Args:
        section: a mapping.
        what: name of the section in messages.
        table: keys that belong to the table, not to the configuration.

    Raises:
        UserError: a name that can be no key, or a mapping as value.
    """
    keys = {key: value for key, value in section.mapping(what).items() if key not in table}
    for key, value in ((key, value) for name, value in keys.items() for key in tied_keys(name)):
        if isinstance(value.value, dict):
            raise UserError(f"{value.where}: {what} has dotted keys ({key}.KEY: VALUE), received a mapping at '{key}'.")
        if "." not in key and key not in SCHEMA:
            top = [name for name in SCHEMA if "." not in name]
            listed = "graphbench list keys"
            raise unknown(f"key of {what}", key, [*table, *top], value.where, meant=our_key(key), listed=listed)
    return keys


def grid_points(section: LocatedValue) -> Iterator[dict[str, LocatedValue]]:
    """Every combination of the values of a grid, the last key fastest; tied keys stay one.

    Raises:
        UserError: a key without a list, or a value twice.
    """
    keys = config_keys(section, "grid")
    for key, values in keys.items():
        texts = [value.as_override() for value in values.items(f"grid over {key}")]
        if len(set(texts)) < len(texts):
            raise UserError(f"{values.where}: grid over {key} has a value twice, received {texts}.")
    for point in itertools.product(*(values.value for values in keys.values())):
        yield {key: LocatedValue(value.value, keys[key].where) for key, value in zip(keys, point, strict=True)}


def with_grid_point(
    keys: Mapping[str, LocatedValue], point: Mapping[str, LocatedValue], where: str
) -> dict[str, LocatedValue]:
    """The settings at a point of the grid, with a ``name_tag`` made from its values.

    Raises:
        UserError: a key is set outside the grid, too.
    """
    values = {key: value for name, value in point.items() for key in tied_keys(name)}
    for key, value in values.items():
        if key in keys:
            raise UserError(f"{value.where}: {key} is in the grid and at {keys[key].where}; it can be in one only.")
    return {**keys, **values, "name_tag": _name_tag(keys.get("name_tag"), point, where)} if point else dict(keys)


def _short_names(point: Mapping[str, LocatedValue]) -> dict[str, str]:
    """The last parts of the keys (of tied ones the first) where they are unambiguous, and the values."""
    first = [tied_keys(name)[0] for name in point]
    last = [key.rpartition(".")[2] for key in first]
    names = last if len(set(last)) == len(last) else first
    return {name: value.as_override() for name, value in zip(names, point.values())}


def _name_tag(tag: LocatedValue | None, point: Mapping[str, LocatedValue], where: str) -> LocatedValue:
    values = "_".join(f"{name}-{value}" for name, value in _short_names(point).items())
    values = re.sub(r"[^\w.+-]+", "-", values).strip("-")
    prefix = check(SCHEMA["name_tag"], tag.value, "name_tag", tag.where) if tag else ""
    return LocatedValue(f"{prefix}_{values}" if prefix else values, where)


def label_suffix(point: Mapping[str, LocatedValue]) -> str:
    """Addition of a point of the grid to the label: `` (layers=2, self_loop=true)``."""
    return f" ({', '.join(f'{name}={value}' for name, value in _short_names(point).items())})" if point else ""
