"""Loading of YAML files and overrides into one checked configuration.

Order: ``_base_`` fragments (first to last, recursively), the file itself, the command line. Plug-ins are loaded
before any name is resolved. Whatever does not fit is an error with file and line; nothing is repaired silently.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from graphbench import plug_ins, registry, shipped, user_code
from graphbench.config import dialect
from graphbench.config.components import (
    check_names,
    component_of_section,
    encoding_keys,
    names_of_plug_ins,
    open_sections,
    sections_in_use,
    settable_keys,
)
from graphbench.config.config import Config, nested
from graphbench.config.foreign_names import our_key
from graphbench.config.key import Key
from graphbench.config.layer_type import component_names
from graphbench.config.run_keys import INFERENCE_MODES
from graphbench.config.schema import GROUPS, SCHEMA, namespaces_of_group
from graphbench.config.values import check
from graphbench.config.yaml_files import COMMAND_LINE, PYTHON, Leaves, parse_overrides, read_file, read_mapping
from graphbench.errors import SHOWN, UserError, nearest, unknown

_LONGEST = 240
"""Bytes of a folder's name; file systems take 255, and folders that are moved aside have longer ones."""
_ENCODER_KEYS = ("dataset.node_encoder_name", "dataset.edge_encoder_name")


def load_config(
    settings: str | Path | Mapping[str, Any],
    overrides: Sequence[Any] | Mapping[str, Any] = (),
    *,
    name: str | None = None,
    places: Mapping[str, str] = MappingProxyType({}),
) -> Config:
    """Reads, merges and checks a configuration.

    Args:
        settings: a YAML file, the name of a shipped one (:func:`graphbench.shipped.configuration`), or what such a file
            says as a mapping: ``{"_base_": "quickstart", "gt": {"layers": 3}, "optim.max_epoch": 5}``.
        overrides: ``{key: value}``, or ``[key, value, key, value, ...]`` as on a command line: dotted keys, values
            written as in YAML or as Python's.
        name: name of its runs, without ``name_tag``; default: stem of the file. A mapping needs one.
        places: ``file:line`` of those that come from a file (a sweep), not from the command line.

    Raises:
        UserError: missing file, bad YAML, unknown key, wrong type, unknown component, bad plug-in, no name.
    """
    if not isinstance(settings, str | Path | Mapping):
        raise TypeError(f"load_config takes a file, a shipped name or a mapping, received {type(settings).__name__}")
    if name is not None and not isinstance(name, str):
        raise UserError(f"name: it is the run folder's name, a text, received {name!r}.")
    if isinstance(overrides, Mapping):
        overrides = [word for pair in overrides.items() for word in pair]
    leaves: Leaves = {}
    if isinstance(settings, Mapping):
        if name is None:
            raise UserError("load_config of a mapping needs the name of its runs: load_config({...}, name='mine').")
        path = Path(f"{name}.yaml")  # what keys name is looked for beside it, in the current folder
        read_mapping(settings, leaves, SCHEMA)
    else:
        path = shipped.configuration(settings)
        read_file(path, leaves, SCHEMA)
    if not leaves and not overrides:
        raise UserError(f"{path}: names no key: is the file empty?")
    base = _base_name(path, leaves) if name is None else name
    leaves.update(parse_overrides(overrides, places))
    typed = {str(key): text for key, text in zip(overrides[::2], overrides[1::2], strict=True) if isinstance(text, str)}
    code, code_files = _load_plugins(leaves, path)

    _register_named(leaves)
    schema = {**SCHEMA, **_further_encodings(leaves)}
    values: dict[str, Any] = {name: key.default for name, key in schema.items()}
    origin = {name: where for name, (_, where) in leaves.items()}
    notices = []
    for dotted, key in _keys(schema, leaves).items():
        value, where = leaves[dotted]
        if (
            where == COMMAND_LINE
            and dotted in typed
            and key.kind is str
            and not isinstance(value, str | list | dict | None)
        ):
            value = typed[dotted]  # the shell takes the quotes that YAML would want around 50 or off
        values[dotted] = check(key, value, dotted, where)
        if key.inert and values[dotted] != key.default:
            notices.append(f"{where}: {dotted}: {key.inert}.")
    check_names(schema, values, origin)
    if "compat" not in leaves:
        inferred = dialect.infer(values, origin, component_names)
        if inferred is not None:
            values["compat"], notice = inferred
            notices.append(notice)
    dialect.name_encoders(values)
    if "dataset.split" not in leaves:
        builder = registry.lookup(registry.DATASETS, values["dataset.format"])
        values["dataset.split"] = list(builder.default_sizes(values["dataset.name"], values["dataset.split_mode"]))
    open_sections(values, origin)
    given = {str(key) for key in overrides[::2]} | {key for key, where in origin.items() if where == PYTHON}
    notices += _unused_sections(values, origin, given, path)
    notices += _long_warm_up(values, origin)

    tree = nested(values)
    tree.freeze()
    splits = tree.run_multiple_splits
    if len(set(splits)) < len(splits):
        raise UserError(f"{origin['run_multiple_splits']}: run_multiple_splits names a split twice: {splits}.")
    named = _run_name(base, tree.name_tag, str(path) if name is None else "name", origin.get("name_tag", "name_tag"))
    return Config(named, tree, origin, tuple(notices), code, str(path), code_files)


def _run_name(base: str, tag: str, where: str, where_tag: str) -> str:
    """Name of the runs' folder.

    Args:
        base: name without the tag.
        tag: ``name_tag``.
        where: where the name comes from.
        where_tag: place of the tag.
    """
    for part, said in (
        (base, f"{where}: it is the run folder's name"),
        (tag, f"{where_tag}: name_tag is a part of the run folder's name"),
    ):
        if "/" in part or "\\" in part or not part.isprintable():
            raise UserError(f"{said}, not a path or several lines, received {part!r}.")
    name = base + (f"-{tag}" if tag else "")
    if ".old-" in name or name.startswith(".") or not name:
        raise UserError(
            f"{where_tag if tag else where}: the runs would be called '{name}', and folders with a leading dot or "
            ".old- in their name are those of hidden runs, or moved aside. Choose another name."
        )
    if len(name.encode()) > _LONGEST:
        raise UserError(
            f"{where_tag if tag else where}: a run folder's name has at most {_LONGEST} bytes, received '{name}'."
        )
    return name


def _base_name(path: Path, leaves: Leaves) -> str:
    """Name of the runs without ``name_tag``: stem of the file; of a run's own ``config.yaml`` that of the run."""
    if path.name != "config.yaml":
        return path.stem
    try:
        record = json.loads(path.with_name("record.json").read_text(encoding="utf-8"))
        name, run_id, seed = (str(record[key]) for key in ("config", "run_id", "seed"))
    except (OSError, ValueError, LookupError, TypeError):
        return path.stem
    mode, tag = (leaves.get(key, ("", ""))[0] for key in ("train.mode", "name_tag"))  # both are appended to it anew
    name = name.removesuffix(f"-{mode}") if mode in INFERENCE_MODES else name
    name = name.removesuffix(f"-{tag}") if tag else name
    return name if run_id == seed else f"{name}-split{run_id}"  # one of several splits, with the same seed


def _load_plugins(leaves: Leaves, path: Path) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Imports plug-ins; their sources with those of what they import, and the files of both that lie in the project."""
    code: dict[str, bytes] = {}
    imported: dict[str, bytes] = {}
    files: dict[str, bytes] = {}
    sources, where = leaves.get("plugins", ([], ""))
    for source in check(SCHEMA["plugins"], sources, "plugins", where):
        plugin = plug_ins.load_plugin(source, where, path.parent)
        code[source] = plug_ins.plugin_source(plugin)
        imported |= user_code.imported_by(plugin.__name__)
        files |= plug_ins.files_to_keep(source, plugin)
    return {**imported, **code}, {**imported, **files}


def _register_named(leaves: Leaves) -> None:
    """Makes components of families (``dataset.format: PyG-KarateClub``) and of installed plug-ins known where named."""
    for key, (value, _) in leaves.items():
        namespaces = SCHEMA[key].namespaces if key in SCHEMA else ()
        named = component_names(value) if namespaces and isinstance(value, str | list) else []
        for name in (name for name in named if isinstance(name, str)):
            if not any(registry.register_family_member(namespace, name) for namespace in namespaces):
                plug_ins.load_installed()


def _further_encodings(leaves: Leaves) -> dict[str, Key]:
    """Keys ``posenc_<Name>.*`` of the encoders that are named or set here and that the schema does not list."""
    named = [name for key in _ENCODER_KEYS if key in leaves for name in _encoders(leaves[key][0])]
    mentioned = [key.partition(".")[0].removeprefix("posenc_") for key in leaves if key.startswith("posenc_")]
    keys: dict[str, Key] = {}
    for name in dict.fromkeys([*named, *mentioned]):
        if f"posenc_{name}" not in GROUPS and name in registry.names(registry.POSITIONAL_ENCODERS):
            keys |= encoding_keys(name)
    return keys


def _encoders(value: Any) -> list[str]:
    return component_names(value) if isinstance(value, str) else []  # another type is refused later


def _keys(schema: Mapping[str, Key], leaves: Leaves) -> dict[str, Key]:
    """The keys that dotted names stand for, but for empty sections.

    Raises:
        UserError: all that are unknown, a line each; of more than :data:`SHOWN` the first. Or the file is a sweep.
    """
    for name, (_, where) in leaves.items():
        if name.startswith("sweep."):
            raise UserError(f"{where}: this file names several configurations: it is one for graphbench sweep.")
    keys: dict[str, Key] = {}
    refused: list[str] = []
    for name, (value, where) in leaves.items():
        try:
            key = _key(schema, name, where, value)
        except UserError as error:
            refused.append(str(error))
            continue
        if key is not None:
            keys[name] = key
    if refused:
        further = [f"... ({len(refused)} keys in all)"] if len(refused) > SHOWN else []
        raise UserError("\n".join([*refused[:SHOWN], *further]))
    return keys


def _key(schema: Mapping[str, Key], name: str, where: str, value: Any) -> Key | None:
    """The key a dotted name stands for; None for a section that is present but empty."""
    if name in schema:
        return schema[name]
    group, _, rest = name.partition(".")
    component, _, argument = rest.partition(".")
    owner = component_of_section(group, component) if rest else None
    arguments = settable_keys(owner) if owner else {}
    if argument in arguments:
        return arguments[argument]
    if name in GROUPS or (owner and not argument) or any(key.startswith(name + ".") for key in schema):
        if value is None:
            return None
        raise UserError(f"{where}: {name} is a section of keys, received {value!r}.")
    declared = registry.parameters(owner).get(argument) if owner else None
    if declared is not None and not declared.from_context:
        raise UserError(
            f"{where}: the parameter '{argument}' of {component} is no key (its type cannot be written in YAML); "
            f"annotate it in {plug_ins.place(owner)}, e.g. {argument}: float."
        )
    if owner:
        raise unknown(f"argument of {component}", argument, arguments, where)
    candidates, meant = _candidates(schema, name), our_key(name) or _elsewhere(schema, name)
    error = unknown("configuration key", name, candidates, where, meant=meant, listed="graphbench list keys")
    raise UserError(f"{error}{names_of_plug_ins(namespaces_of_group(group))}") if argument else error


def _elsewhere(schema: Mapping[str, Key], name: str) -> str | None:
    """The key of another section whose last part is written so; for a name without section, nearly so or with it."""
    last = name.rpartition(".")[2]
    by_last: dict[str, str] = {}
    for key, declared in schema.items():
        if not declared.inert:
            by_last.setdefault(key.rpartition(".")[2], key)
    if "." not in name and nearest(name, _candidates(schema, name)) is None:
        last = nearest(name, by_last) or next((other for other in by_last if name in other.split("_")), last)
    return by_last.get(last)


def _candidates(schema: Mapping[str, Key], name: str) -> list[str]:
    """Valid names near an unknown one: those of its group where the group exists, else all."""
    group = name.split(".")[0]
    inside = [key for key in schema if key.startswith(group + ".")]
    if inside:
        return inside + [f"{group}.{known}" for space in namespaces_of_group(group) for known in registry.names(space)]
    if "." in name:
        return [*schema, *filter(None, GROUPS)]
    return [key for key in (*schema, *GROUPS) if key and "." not in key]


def _unused_sections(
    values: Mapping[str, Any], origin: Mapping[str, str], given: Collection[str], path: Path
) -> list[str]:
    """Sentences about keys that were set, by files or as overrides (``given``), for components that are not named."""
    used = {f"{group}.{name}" for group, name, _ in sections_in_use(values)}
    notices = []
    for key, where in origin.items():
        section = ".".join(key.split(".")[:2])
        if key not in SCHEMA and not key.startswith("posenc_") and key.count(".") > 1 and section not in used:
            name, last = section.partition(".")[2], key.rpartition(".")[2]
            others = sorted(each for each in used if each.partition(".")[2] == name)
            hint = f"; did you mean '{others[0]}.{last}'?" if others else "."
            notices.append(f"{where}: {key} has no effect: {name} is not in use{' there' if others else ''}{hint}")
    named = {name for key in _ENCODER_KEYS if values[key.removesuffix("_name")] for name in _encoders(values[key])}
    renamed = any(key in given or key.removesuffix("_name") in given for key in _ENCODER_KEYS)
    for key, where in origin.items():
        group, _, last = key.partition(".")
        encoder = group.removeprefix("posenc_")
        # Base files switch on what a file that builds on them need not name.
        meant = renamed or key in given or where.rpartition(":")[0] == str(path)
        if meant and group != encoder and last == "enable" and values[key] and encoder not in named:
            notices.append(f"{where}: {key} has no effect: no encoder (dataset.node_encoder_name) is {encoder}.")
    return notices


def _long_warm_up(values: Mapping[str, Any], origin: Mapping[str, str]) -> list[str]:
    """A sentence where the learning rate is still rising when the training ends."""
    name = values["optim.scheduler"]
    if "num_warmup_epochs" not in registry.parameters(registry.lookup(registry.SCHEDULES, name)):
        return []
    rise, end = (
        next(key for key in (f"optim.{name}.{last}", f"optim.{last}") if key in values)
        for last in ("num_warmup_epochs", "max_epoch")
    )
    if values[rise] < values[end]:
        return []
    where = origin.get(rise) or origin.get(end) or "default"
    return [
        f"{where}: the warm-up ({rise} {values[rise]}) is not shorter than the training ({end} {values[end]}): the "
        "learning rate never reaches optim.base_lr."
    ]
