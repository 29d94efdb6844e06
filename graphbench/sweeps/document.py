"""YAML with the line of every value, for error messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from graphbench.config.yaml_files import compose_file, construct, similar_file
from graphbench.errors import UserError, unknown


@dataclass(frozen=True)
class LocatedValue:
    """A value of a YAML file.

    Attributes:
        value: ``dict[str, LocatedValue]``, ``list[LocatedValue]``, or a plain scalar.
        where: ``file:line``.
    """

    value: Any
    where: str

    def mapping(
        self, what: str, allowed: Iterable[str] | None = None, needed: Iterable[str] = ()
    ) -> dict[str, LocatedValue]:
        """The value as a mapping.

        Args:
            what: name of the value in messages.
            allowed: every key it may have; None: any.
            needed: keys it must have.

        Raises:
            UserError: no mapping, an unknown key, or a missing one.
        """
        if not isinstance(self.value, dict):
            raise UserError(f"{self.where}: {what} is a mapping of keys to values, received {self.plain()!r}.")
        for key, entry in self.value.items():
            if allowed is not None and key not in allowed:
                raise unknown(f"key of {what}", key, allowed, entry.where)
        for key in needed:
            if key not in self.value:
                raise UserError(
                    f"{self.where}: {what} needs the key '{key}', received {', '.join(self.value) or '{}'}."
                )
        return self.value

    def items(self, what: str) -> list[LocatedValue]:
        """The value as a list with at least one entry.

        Raises:
            UserError: it is none.
        """
        if not isinstance(self.value, list) or not self.value:
            raise UserError(f"{self.where}: {what} is a list with at least one entry, received {self.plain()!r}.")
        return self.value

    def text(self, what: str) -> str:
        """The value as a non-empty string.

        Raises:
            UserError: it is none.
        """
        if not isinstance(self.value, str) or not self.value.strip():
            raise UserError(f"{self.where}: {what} is a text, received {self.plain()!r}.")
        return self.value

    def plain(self) -> Any:
        """The value without lines."""
        if isinstance(self.value, dict):
            return {key: value.plain() for key, value in self.value.items()}
        return [value.plain() for value in self.value] if isinstance(self.value, list) else self.value

    def as_override(self) -> str:
        """The value in one line, as it is written behind a key on the command line."""
        return in_one_line(self.plain())


def in_one_line(value: Any) -> str:
    """A plain value as YAML in one line, as it is written behind a key on the command line."""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=float("inf"))
    return text.removesuffix("...\n").strip()


def tied_keys(name: str) -> tuple[str, ...]:
    """The keys of ``"gt.dim_hidden, gnn.dim_inner"``, which take one value together."""
    return tuple(key.strip() for key in name.split(","))


def read_document(path: Path) -> LocatedValue:
    """Reads a YAML file.

    Raises:
        UserError: no such file, no YAML, or anchors that make it endless.
    """
    try:
        root = compose_file(path.read_text(encoding="utf-8"), path)
    except OSError as error:
        raise UserError(f"'{path}' cannot be read: {error.strerror}.{similar_file(path)}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"'{path}' cannot be read: {error}.") from None
    return LocatedValue(None, f"{path}:1") if root is None else _locate(root, path)


def _locate(node: yaml.Node, path: Path) -> LocatedValue:
    where = f"{path}:{node.start_mark.line + 1}"
    if isinstance(node, yaml.MappingNode):
        mapping: dict[str, LocatedValue] = {}
        for key_node, value_node in node.value:
            key_where = f"{path}:{key_node.start_mark.line + 1}"
            key = str(construct(key_node, key_where))
            if key in mapping:
                raise UserError(f"{key_where}: '{key}' is set twice (first at {mapping[key].where}).")
            mapping[key] = LocatedValue(_locate(value_node, path).value, key_where)
        return LocatedValue(mapping, where)
    if isinstance(node, yaml.SequenceNode):
        return LocatedValue([_locate(child, path) for child in node.value], where)
    return LocatedValue(construct(node, where), where)
