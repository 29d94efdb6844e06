"""YAML files and command-line overrides as leaves: dotted key -> value and the place where it was written."""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from graphbench import shipped
from graphbench.errors import UserError, nearest, neighbour

COMMAND_LINE = "command line"
PYTHON = "settings"
"""Place of what a mapping has that ``load_config`` was given."""
Leaves = dict[str, tuple[Any, str]]
"""Dotted key -> value and ``file:line`` (or :data:`COMMAND_LINE`)."""

_MOST_NODES = 100_000
_DEEPEST = 100
"""Values inside each other: what reads them calls itself for each."""
_SURELY_FLAT = 2_000
"""Characters that can open a value inside another one; fewer are no danger."""

_MISREAD = re.compile(r"[-+]?(0[0-9_]+|[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?)")

_TEXT = "tag:yaml.org,2002:str"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml, many times faster, where PyYAML was built with it."""


@functools.lru_cache(maxsize=1024)  # the entries of a sweep share their base files and most of their overrides
def compose(text: str) -> yaml.Node | None:
    """The root of a document as a node that knows its line, None for an empty one; nobody may change it.

    Raises:
        yaml.YAMLError: not valid YAML, or nested so deeply that libyaml, which calls itself, would end the process.
    """
    if sum(map(text.count, "[{-?:")) > _SURELY_FLAT:
        _check_depth(text)
    root: yaml.Node | None = yaml.compose(text, Loader=_LOADER)
    return root


def _check_depth(text: str) -> None:
    """Refuses a document from its events, which nothing that calls itself reads."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            problem = f"more than {_DEEPEST} values lie inside each other"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)  # type: ignore[arg-type]


def construct(node: yaml.Node, where: str) -> Any:
    """The plain value of a node.

    Args:
        node: from :func:`compose`.
        where: ``file:line`` of it, for messages.

    Raises:
        UserError: its tag is unknown or does not fit, or it has a number that is easily misread.
    """
    if node.tag == _TEXT and isinstance(node, yaml.ScalarNode):
        return node.value  # as most are; a constructor takes 20 times as long
    _check_number(node, where)
    try:
        return yaml.constructor.SafeConstructor().construct_object(node, deep=True)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date that does not exist
        raise UserError(f"{where}: {getattr(error, 'problem', None) or error}.") from None


def _check_number(node: yaml.Node, where: str) -> None:
    """Refuses numbers in a node that YAML 1.1 reads in base 8 or 60, where their author hardly meant that.

    Raises:
        UserError: ``010`` is 8 there, and ``1:30`` is 90.
    """
    misread = _misread_number(node)
    if misread is not None:
        raise UserError(
            f"{where}: received {misread}, which YAML reads as {yaml.safe_load(misread)}. Write the number "
            f"without leading zeros and colons, or '{misread}' where it is a text."
        )


def _misread_number(node: yaml.Node) -> str | None:
    if isinstance(node, yaml.CollectionNode):
        children = (child for entry in node.value for child in (entry if isinstance(entry, tuple) else (entry,)))
        return next((text for child in children if (text := _misread_number(child)) is not None), None)
    is_number = node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
    return node.value if is_number and _MISREAD.fullmatch(node.value) else None


def read_file(
    path: Path, leaves: Leaves, whole: Collection[str], including: tuple[Path, ...] = (), where: str | None = None
) -> None:
    """Adds the leaves of a file and, before them, of the files named by its ``_base_``.

    Args:
        path: path of the file.
        leaves: added to in place; later files win.
        whole: keys whose value is taken as a whole, also where it is a mapping.
        including: files that include this one.
        where: place of the ``_base_`` that names it.

    Raises:
        UserError: missing or unreadable file, bad YAML, a key set twice, a file that includes itself.
    """
    prefix = f"{where}: " if where else ""
    resolved = path.resolve()
    if resolved in including:
        raise UserError(f"{prefix}'{path}' includes itself: {' -> '.join(str(p) for p in (*including, path))}.")
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{prefix}no such configuration file: '{path}'.{similar_file(path)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{prefix}configuration file '{path}' cannot be read: {error}.") from None
    whole = frozenset(whole)
    written = {name: (copy.deepcopy(value), place) for name, (value, place) in _written(text, path, whole).items()}
    _read_bases(written, path.parent, leaves, whole, (*including, resolved))
    leaves.update(written)


def read_mapping(settings: Mapping[str, Any], leaves: Leaves, whole: Collection[str]) -> None:
    """Adds the leaves of a configuration that was written in Python, as :func:`read_file` those of a file.

    Args:
        settings: values by key; sections are mappings, or written with dots (``{"gt.layers": 3}``). Files of ``_base_``
            are found from the current folder.
        leaves: added to in place.
        whole: see :func:`read_file`.

    Raises:
        UserError: a key that is no text, or set twice.
    """
    written: Leaves = {}

    def walk(section: Mapping[str, Any], prefix: str, depth: int) -> None:
        if depth > _DEEPEST:
            raise UserError(f"{PYTHON}: more than {_DEEPEST} sections lie inside each other at {prefix[:60]}...")
        for key, value in section.items():
            name = f"{prefix}{key}"
            if not isinstance(key, str) or name in written:
                raise UserError(f"{PYTHON}: {f'{name} is set twice' if name in written else f'{key!r} is no key'}.")
            if isinstance(value, Mapping) and name not in whole:
                walk(value, f"{name}.", depth + 1)
            else:
                written[name] = (_plain(value, name), PYTHON)

    walk(settings, "", 0)
    _read_bases(written, Path(), leaves, whole, ())
    leaves.update(written)


def _plain(value: Any, name: str, depth: int = 0) -> Any:
    """A value of Python as YAML would have given it: numbers of NumPy and PyTorch as Python's, paths as text."""
    if depth > _DEEPEST:
        raise UserError(f"{PYTHON}: {name}: more than {_DEEPEST} values lie inside each other.")
    if isinstance(value, Mapping):
        return {key: _plain(each, name, depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, name, depth + 1) for each in value]
    if isinstance(value, Path):
        return str(value)
    if callable(getattr(value, "item", None)) and getattr(value, "ndim", None) == 0:
        value = value.item()
    if value is not None and type(value) not in (bool, int, float, str):
        raise UserError(f"{PYTHON}: {name} takes numbers, texts, lists and mappings, received {type(value).__name__}.")
    return value


def _read_bases(
    written: Leaves, folder: Path, leaves: Leaves, whole: Collection[str], including: tuple[Path, ...]
) -> None:
    """Takes ``_base_`` out of what was written, and adds the leaves of the files that it names."""
    bases, where = written.pop("_base_", (None, ""))
    for base in bases if isinstance(bases, list) else [] if bases is None else [bases]:
        if not isinstance(base, str):
            raise UserError(f"{where}: _base_ takes file names, received {base!r}.")
        read_file(shipped.beside(folder, base), leaves, whole, including, where)


@functools.lru_cache(maxsize=1024)
def _written(text: str, path: Path, whole: frozenset[str]) -> Leaves:
    """The leaves that a file itself has, see :func:`read_file`; nobody may change them."""
    root = compose_file(text, path)
    written: Leaves = {}
    if root is None:
        return written
    if not isinstance(root, yaml.MappingNode):
        raise UserError(f"{path}:{root.start_mark.line + 1}: a configuration is a mapping of keys to values.")
    _walk(root, "", path, written, whole)
    return written


def compose_file(text: str, path: Path) -> yaml.Node | None:
    """:func:`compose` of the text of a file.

    Raises:
        UserError: not valid YAML, or anchors that make it endless.
    """
    try:
        root = compose(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise UserError(f"{path}{line}: not valid YAML: {getattr(error, 'problem', None) or error}.") from None
    if root is not None:
        _check_size(root, path)
    return root


def _check_size(root: yaml.Node, path: Path) -> None:
    """Refuses anchors (``&a``, ``*a``) that make a small file endless, or as good as that.

    Raises:
        UserError: a node contains itself, or the file has more than :data:`_MOST_NODES` nodes with all anchors put in,
            or more than :data:`_DEEPEST` inside each other.
    """
    pending, count = [(root, frozenset[int]())], 0
    while pending:
        node, above = pending.pop()
        count += 1
        if id(node) in above or count > _MOST_NODES:
            why = "contains itself" if id(node) in above else f"has more than {_MOST_NODES:,} values"
            raise UserError(f"{path}:{node.start_mark.line + 1}: {why}: is an anchor (&name, *name) meant?")
        if len(above) > _DEEPEST:
            raise UserError(f"{path}:{node.start_mark.line + 1}: more than {_DEEPEST} values lie inside each other.")
        if isinstance(node, yaml.CollectionNode):
            inside = above | {id(node)}
            for entry in node.value:
                pending += [(child, inside) for child in (entry if isinstance(entry, tuple) else (entry,))]


def _walk(node: yaml.MappingNode, prefix: str, path: Path, leaves: Leaves, whole: Collection[str]) -> None:
    seen: dict[str, int] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        where = f"{path}:{line}"
        key = str(_scalar(key_node, where))
        if key in seen:
            raise UserError(f"{where}: '{prefix}{key}' is set twice in this file (first in line {seen[key]}).")
        seen[key] = line
        name = prefix + key
        if isinstance(value_node, yaml.MappingNode) and name not in whole:
            if value_node.value:
                _walk(value_node, name + ".", path, leaves, whole)
            else:
                leaves[name] = (None, where)
        else:
            leaves[name] = (_scalar(value_node, where), where)


def _scalar(node: yaml.Node, where: str) -> Any:
    if node.tag == "tag:yaml.org,2002:merge":
        raise UserError(f"{where}: '<<' (merging a mapping) is not read. Put what files share into one, _base_: FILE.")
    return construct(node, where)


def parse_overrides(words: Sequence[Any], places: Mapping[str, str]) -> Leaves:
    """Leaves of ``[key, value, key, value, ...]``; values are written as in YAML, or numbers, lists, ... of Python.

    Args:
        words: keys and values.
        places: ``file:line`` of the keys that do not come from the command line.

    Raises:
        UserError: one text, a key without value, or joined to it by ``=``.
    """
    if isinstance(words, str):
        raise UserError(f"{COMMAND_LINE}: overrides are a mapping or [key, value, key, value, ...], received a text.")
    overrides = list(map(str, words))
    for word in overrides[::2]:
        key, equals, setting = word.partition("=")
        if equals:
            raise UserError(f"{COMMAND_LINE}: overrides are KEY VALUE, received '{word}'. Write {key} {setting}.")
    if len(overrides) % 2:
        raise UserError(f"{COMMAND_LINE}: overrides come in pairs KEY VALUE; '{overrides[-1]}' has no value.")
    leaves: Leaves = {}
    for name, text in zip(overrides[::2], overrides[1::2], strict=True):
        where = places.get(name, COMMAND_LINE)
        try:
            node = compose(text)
        except yaml.YAMLError:
            leaves[name] = (text, where)
        else:
            if isinstance(node, yaml.CollectionNode):
                _check_size(node, Path(where))
            leaves[name] = (None if node is None else _scalar(node, f"{where}: {name}"), where)
    return leaves


def similar_file(path: Path) -> str:
    """Suggestion for a path that leads nowhere, as a sentence with a space before it; empty for none."""
    beside = neighbour(path, "*.y*ml")
    if beside:
        return beside
    known = [file.stem for file in (*shipped.configurations(), *shipped.sweeps())] if len(path.parts) == 1 else []
    hint = nearest(path.stem, known)
    return f" Did you mean '{hint}'? graphbench list configs has all." if hint else ""
