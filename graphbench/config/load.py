"""From YAML files and overrides to one checked, frozen configuration that knows where each value came from.

Order: ``_base_`` fragments (first to last, recursively), the file itself, the command line. Plug-ins are loaded
before any name is resolved. Whatever does not fit is an error with file and line; nothing is repaired silently.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from yacs.config import CfgNode

from graphbench import registry
from graphbench.config import dialect
from graphbench.config.data_keys import ENCODING
from graphbench.config.key import Key
from graphbench.config.schema import GROUPS, SCHEMA, SUPPLIED, SUPPLIED_TO_BLOCKS, rooms_of_group
from graphbench.config.values import check, key_of
from graphbench.config.yaml_nodes import compose, construct
from graphbench.errors import UserError, nearest, unknown

COMMAND_LINE = "command line"
_Leaves = dict[str, tuple[Any, str]]


@dataclass(frozen=True)
class Config:
    """A checked configuration.

    Attributes:
        name: stem of the file, with ``name_tag``: the name of the run directory.
        tree: every key and every component section in use, defaults included; frozen.
        origin: ``file:line`` (or ``command line``) of every key that was set.
        notices: sentences for the log (keys without effect).
    """

    name: str
    tree: CfgNode
    origin: Mapping[str, str]
    notices: tuple[str, ...]

    def where(self, key: str) -> str:
        """Where a key, or the first key below it, was set; the key itself when it has its default."""
        if key in self.origin:
            return self.origin[key]
        below = [place for name, place in self.origin.items() if name.startswith(key + ".")]
        return below[0] if below else f"{key} (default)"

    def value(self, key: str) -> Any:
        """The value of a dotted key."""
        return functools.reduce(lambda node, name: node[name], key.split("."), self.tree)

    def is_set(self, key: str) -> bool:
        """True when a file or the command line gave the key a value."""
        return key in self.origin

    def own(self, group: str, name: str) -> dict[str, Any]:
        """What the section of a component says: ``own("gt", "SGFormer")``."""
        section = self.tree.get(group, {}).get(name, None)
        return dict(section) if isinstance(section, CfgNode) else {}

    @functools.cached_property
    def hash(self) -> str:
        """Twelve hex digits over everything that influences results (not: paths, logging, seed, device)."""
        relevant = {
            name: value for name, value in _flatten(self.tree).items() if not (name in SCHEMA and SCHEMA[name].neutral)
        }
        canonical = json.dumps(relevant, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:12]

    def plain(self) -> dict[str, Any]:
        """The complete configuration as nested dictionaries."""
        return _plain(self.tree)

    def dump(self) -> str:
        """The complete configuration as YAML; loading it gives the same configuration."""
        return yaml.safe_dump(self.plain(), sort_keys=False, default_flow_style=None, width=120)


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Reads, merges and checks a configuration.

    Args:
        path: a YAML file.
        overrides: ``[key, value, key, value, ...]``, dotted keys, values written as in YAML.

    Raises:
        UserError: missing file, bad YAML, unknown key, wrong type, unknown component, bad plug-in.
    """
    path = Path(path)
    leaves: _Leaves = {}
    _read(path, leaves, including=())
    leaves.update(_parse_overrides(overrides))
    _load_plugins(leaves, path)

    schema = {**SCHEMA, **_encodings_of_plugins()}
    values: dict[str, Any] = {name: key.default for name, key in schema.items()}
    notices = []
    for name, (value, where) in leaves.items():
        key = _key(schema, name, where, value)
        if key is None:
            continue  # an empty section
        values[name] = check(key, value, name, where)
        if key.inert and values[name] != key.default:
            notices.append(f"{where}: {name}: {key.inert}.")
    _check_names(schema, values, leaves)
    if "compat" not in leaves:
        found = dialect.infer(values, {name: where for name, (_, where) in leaves.items()}, component_names)
        if found is not None:
            values["compat"], notice = found
            notices.append(notice)
    _open_sections(schema, values)

    tree = _nest(values)
    tree.freeze()
    tag = values["name_tag"]
    origin = {name: where for name, (_, where) in leaves.items()}
    return Config(path.stem + (f"-{tag}" if tag else ""), tree, origin, tuple(notices))


# --- reading ------------------------------------------------------------------------------------------------------


def _read(path: Path, leaves: _Leaves, including: tuple[Path, ...], where: str | None = None) -> None:
    """Adds the leaves of a file and, before them, of the files it is based on."""
    prefix = f"{where}: " if where else ""
    if path.resolve() in including:
        raise UserError(f"{prefix}'{path}' includes itself: {' -> '.join(str(p) for p in (*including, path))}.")
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{prefix}no such configuration file: '{path}'.{_similar_file(path)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{prefix}configuration file '{path}' cannot be read: {error}.") from None
    try:
        root = compose(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise UserError(f"{path}{line}: not valid YAML: {getattr(error, 'problem', None) or error}.") from None
    if root is None:
        return
    if not isinstance(root, yaml.MappingNode):
        raise UserError(f"{path}:{root.start_mark.line + 1}: a configuration is a mapping of keys to values.")
    own: _Leaves = {}
    _walk(root, "", path, own)
    if "_base_" in own:
        bases, base_where = own.pop("_base_")
        for base in [bases] if isinstance(bases, str) else bases or []:
            if not isinstance(base, str):
                raise UserError(f"{base_where}: _base_ takes file names, received {base!r}.")
            _read(path.parent / base, leaves, (*including, path.resolve()), base_where)
    leaves.update(own)


def _walk(node: yaml.MappingNode, prefix: str, path: Path, leaves: _Leaves) -> None:
    seen: dict[str, int] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        where = f"{path}:{line}"
        key = str(_scalar(key_node, where))
        if key in seen:
            raise UserError(f"{where}: '{prefix}{key}' is set twice in this file (first in line {seen[key]}).")
        seen[key] = line
        name = prefix + key
        if isinstance(value_node, yaml.MappingNode) and name not in SCHEMA:
            if value_node.value:
                _walk(value_node, name + ".", path, leaves)
            else:
                leaves[name] = (None, where)
        else:
            leaves[name] = (_scalar(value_node, where), where)


def _scalar(node: yaml.Node, where: str) -> Any:
    try:
        return construct(node)
    except yaml.YAMLError as error:
        raise UserError(f"{where}: {getattr(error, 'problem', None) or error}.") from None


def _parse_overrides(overrides: Sequence[str]) -> _Leaves:
    if len(overrides) % 2:
        raise UserError(f"{COMMAND_LINE}: overrides come in pairs KEY VALUE; '{overrides[-1]}' has no value.")
    leaves: _Leaves = {}
    for name, text in zip(overrides[::2], overrides[1::2], strict=True):
        try:
            leaves[name] = (yaml.safe_load(text), COMMAND_LINE)
        except yaml.YAMLError:
            leaves[name] = (text, COMMAND_LINE)
    return leaves


def _load_plugins(leaves: _Leaves, path: Path) -> None:
    sources, where = leaves.get("plugins", ([], ""))
    for source in check(SCHEMA["plugins"], sources, "plugins", where):
        beside = path.parent / source
        registry.load_plugin(str(beside) if source.endswith(".py") and beside.is_file() else source, where)


def _similar_file(path: Path) -> str:
    candidates = [each.name for each in path.parent.glob("*.y*ml")] if path.parent.is_dir() else []
    hint = nearest(path.name, candidates)
    return f" Did you mean '{path.parent / hint}'?" if hint else ""


# --- keys ---------------------------------------------------------------------------------------------------------


def _encodings_of_plugins() -> dict[str, Key]:
    """Keys ``posenc_<Name>.*`` of encoders that the schema does not list (plug-ins): their constructor arguments."""
    found: dict[str, Key] = {}
    for name in registry.names("encoders/positional"):
        if f"posenc_{name}" not in GROUPS:
            own = _own_keys(registry.lookup("encoders/positional", name))
            keys = {"enable": ENCODING["enable"], "dim_pe": ENCODING["dim_pe"], **own}
            found.update({f"posenc_{name}.{argument}": key for argument, key in keys.items()})
    return found


def _key(schema: Mapping[str, Key], name: str, where: str, value: Any) -> Key | None:
    """The key a dotted name stands for; None for a section that is present but empty."""
    if name in schema:
        return schema[name]
    group, _, rest = name.partition(".")
    component, _, argument = rest.partition(".")
    found = _component(group, component) if rest else None
    is_section = name in GROUPS or any(each.startswith(name + ".") for each in schema) or (found and not argument)
    if is_section:
        if value is None:
            return None
        raise UserError(f"{where}: {name} is a section of keys, received {value!r}.")
    if found:
        keys = _own_keys(found)
        if argument in keys:
            return keys[argument]
        raise unknown(f"argument of {component}", argument, keys, where)
    if name.startswith("sweep."):
        raise UserError(f"{where}: this is a file of scripts/sweep.py, which names several configurations.")
    raise unknown("configuration key", name, _candidates(schema, name), where)


def _candidates(schema: Mapping[str, Key], name: str) -> list[str]:
    """Valid names near an unknown one: those of its group where the group exists, else all."""
    group = name.split(".")[0]
    inside = [each for each in schema if each.startswith(group + ".")]
    if inside:
        return inside + [f"{group}.{each}" for room in rooms_of_group(group) for each in registry.names(room)]
    return [*schema, *filter(None, GROUPS)] if "." in name else [e for e in (*schema, *GROUPS) if e and "." not in e]


def _room_of(group: str, name: str) -> str | None:
    return next((room for room in rooms_of_group(group) if name in registry.names(room)), None)


def _component(group: str, name: str) -> Any:
    room = _room_of(group, name)
    return None if room is None else registry.lookup(room, name)


@functools.cache
def _own_keys(component: Any) -> dict[str, Key]:
    keys = {name: key_of(parameter) for name, parameter in registry.parameters(component).items()}
    return {name: key for name, key in keys.items() if key is not None}


LEFT_OUT = ("None", "none", "")
"""Parts of ``a+b`` that stand for nothing."""


@dataclass(frozen=True)
class Part:
    """One part of ``a+b``: a component, and the edge set it works on (``name__edges``, ``name__edges__attribute``).

    Attributes:
        name: of the component.
        edges: of the edge set; None for the edges of the graphs.
        attribute: what describes those pairs; None where they are used without.
    """

    name: str
    edges: str | None = None
    attribute: str | None = None


def parts_of(value: str) -> list[Part]:
    """The parts of ``a+b`` in order, ``None`` parts included."""
    return [Part(*part.strip().split("__", 2)) for part in value.split("+")]


def component_names(value: str | Sequence[str]) -> list[str]:
    """The names in ``a+b`` (or a list of names), ``None`` parts left out."""
    names = [part.name for part in parts_of(value)] if isinstance(value, str) else list(value)
    return [name for name in names if name not in LEFT_OUT]


def _check_names(schema: Mapping[str, Key], values: Mapping[str, Any], leaves: _Leaves) -> None:
    """Refuses unknown components. A default may name one that this version lacks; building it would say so."""
    for name, key in schema.items():
        if key.rooms and values[name] != key.default:
            allowed = [*key.extra, *(each for room in key.rooms for each in registry.names(room))]
            for part in component_names(values[name]):
                if part not in allowed:
                    raise unknown(f"name in {name}", part, allowed, leaves[name][1])


def _open_sections(schema: Mapping[str, Key], values: dict[str, Any]) -> None:
    """Adds the defaults of every named component's own arguments, so that the dump and the hash are complete."""
    for name, key in schema.items():
        group = name.rpartition(".")[0]
        for part in component_names(values[name]) if key.rooms and group else ():
            room = _room_of(group, part)
            if room is None:
                continue
            supplied = SUPPLIED_TO_BLOCKS if room == "layers/blocks" else SUPPLIED
            for argument, parameter in registry.parameters(registry.lookup(room, part)).items():
                own = key_of(parameter)
                if own is not None and argument not in supplied and parameter.default is not parameter.empty:
                    values.setdefault(f"{group}.{part}.{argument}", own.default)


# --- tree ---------------------------------------------------------------------------------------------------------


def _nest(values: Mapping[str, Any]) -> CfgNode:
    root = CfgNode()
    for name, value in values.items():
        node = root
        *groups, last = name.split(".")
        for group in groups:
            if group not in node:
                node[group] = CfgNode()
            node = node[group]
        node[last] = value
    return root


def _flatten(node: CfgNode, prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in node.items():
        flat.update(_flatten(value, f"{prefix}{name}.") if isinstance(value, CfgNode) else {prefix + name: value})
    return flat


def _plain(node: CfgNode) -> dict[str, Any]:
    return {name: _plain(value) if isinstance(value, CfgNode) else value for name, value in node.items()}
