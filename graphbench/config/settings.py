"""The settings of a configuration: what tells it from another, and the hash over them.

Settings are the values that differ from the *baseline*, the value that a key had when it was first released
(``baseline.json``). A key that is added later has its default as baseline, so that configurations from before keep
their hash; a default that is changed later differs from the baseline, so that the hash of every configuration that
leaves the key out changes. Keys without influence on results (paths, loggers, device, seed), keys without effect and
sections of components that are not in use do not count.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from graphbench import registry
from graphbench.config.components import (
    component_keys,
    component_of_section,
    encoding_keys,
    sections_in_use,
)
from graphbench.config.schema import SCHEMA

_UNKNOWN = object()
_MOST_SHOWN = 5  # differences in a message


def settings_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a complete set of values, of this version or of an earlier one.

    Args:
        values: values by dotted key, defaults included, as in a dumped configuration.
    """
    used = {(group, name) for group, name, _ in sections_in_use(values)}
    settings = {}
    for name, value in values.items():
        key = SCHEMA.get(name)
        if key is not None and (key.neutral or key.inert):
            continue
        if key is None and not _counts(name, used):
            continue
        plain = _plain(value)
        if plain != _plain(baseline(name)):
            settings[name] = plain
    return settings


def settings_hash(settings: Mapping[str, Any]) -> str:
    """Twelve hex digits over :func:`settings_of`."""
    canonical = json.dumps(settings, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Keys in which two :func:`settings_of` differ, with both values (the baseline where one does not have the key)."""
    names = sorted(key for key in {*ours, *theirs} if ours.get(key, _UNKNOWN) != theirs.get(key, _UNKNOWN))
    return {name: (ours.get(name, baseline(name)), theirs.get(name, baseline(name))) for name in names}


def describe_differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """``optim.max_epoch 6 there and 500 here, ...`` for messages; empty where two :func:`settings_of` are equal."""
    differing = differences(ours, theirs)
    shown = [
        f"{name} {_written(there)} there and {_written(here)} here"
        for name, (here, there) in list(differing.items())[:_MOST_SHOWN]
    ]
    return ", ".join([*shown, *([f"{left} more keys"] if (left := len(differing) - _MOST_SHOWN) > 0 else [])])


def baseline(name: str) -> Any:
    """The value of a key when it was first released; of one that is not released yet its default."""
    released = released_values()
    if name in released:
        return released[name]
    if name in SCHEMA:
        return SCHEMA[name].default
    group, _, rest = name.partition(".")
    component_name = rest.partition(".")[0]
    if group.startswith("posenc_") and group.removeprefix("posenc_") in registry.names(registry.POSITIONAL_ENCODERS):
        keys = encoding_keys(group.removeprefix("posenc_"))
    else:
        component = component_of_section(group, component_name)
        keys = {} if component is None else component_keys(component)
        name = rest.partition(".")[2]
    return keys[name].default if name in keys else _UNKNOWN


@functools.cache
def released_values() -> Mapping[str, Any]:
    """Content of ``baseline.json``: dotted key -> value."""
    text = resources.files("graphbench.config").joinpath("baseline.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


def _counts(name: str, used: set[tuple[str, str]]) -> bool:
    """Whether a key outside the schema belongs to a component that is in use."""
    group, _, rest = name.partition(".")
    if group.startswith("posenc_"):
        return any(component == group.removeprefix("posenc_") for _, component in used)
    component = rest.partition(".")[0]
    # Versions before the ledger wrote sections of positional encoders below dataset, which nothing read.
    return (group, component) in used and not (
        group == "dataset" and component in registry.names(registry.POSITIONAL_ENCODERS)
    )


def _written(value: Any) -> str:
    return "absent" if value is _UNKNOWN else json.dumps(value)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
