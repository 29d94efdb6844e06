"""A YAML file whose every value knows its line, for messages that say where."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from graphbench.config.yaml_files import compose, construct
from graphbench.errors import UserError, unknown


@dataclass(frozen=True)
class Placed:
    """A value of a YAML file.

    Attributes:
        value: ``dict[str, Placed]``, ``list[Placed]``, or a plain scalar.
        where: ``file:line``.
    """

    value: Any
    where: str

    def mapping(self, what: str, allowed: Iterable[str] | None = None, needed: Iterable[str] = ()) -> dict[str, Placed]:
        """The value as a mapping.

        Args:
            what: what it is called in messages.
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

    def items(self, what: str) -> list[Placed]:
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
            return {key: each.plain() for key, each in self.value.items()}
        return [each.plain() for each in self.value] if isinstance(self.value, list) else self.value

    def as_override(self) -> str:
        """The value in one line, as it is written behind a key on the command line."""
        text: str = yaml.safe_dump(self.plain(), default_flow_style=True, width=float("inf"))
        return text.removesuffix("...\n").strip()


def read_document(path: Path) -> Placed:
    """Reads a YAML file.

    Raises:
        UserError: no such file, or no YAML.
    """
    try:
        root = compose(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"'{path}' cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise UserError(f"{path}{line}: not valid YAML: {getattr(error, 'problem', None) or error}.") from None
    return Placed(None, f"{path}:1") if root is None else _placed(root, path)


def _placed(node: yaml.Node, path: Path) -> Placed:
    where = f"{path}:{node.start_mark.line + 1}"
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Placed] = {}
        for key_node, value_node in node.value:
            key, place = str(_scalar(key_node, path)), f"{path}:{key_node.start_mark.line + 1}"
            if key in found:
                raise UserError(f"{place}: '{key}' is set twice (first at {found[key].where}).")
            found[key] = Placed(_placed(value_node, path).value, place)
        return Placed(found, where)
    if isinstance(node, yaml.SequenceNode):
        return Placed([_placed(each, path) for each in node.value], where)
    return Placed(_scalar(node, path), where)


def _scalar(node: yaml.Node, path: Path) -> Any:
    try:
        return construct(node)
    except yaml.YAMLError as error:
        place = f"{path}:{node.start_mark.line + 1}"
        raise UserError(f"{place}: {getattr(error, 'problem', None) or error}.") from None
