"""Reference of all configuration keys: default, allowed values, meaning; those of components from their docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from graphbench import registry
from graphbench.config.components import component_keys, encoding_keys
from graphbench.config.key import Key
from graphbench.config.schema import GROUPS, SCHEMA

SECTIONS = {
    "data/datasets": ("dataset.format", "dataset"),
    "data/large": ("train.sampler", "train"),
    "encoders/node": ("dataset.node_encoder_name", "dataset"),
    "encoders/edge": ("dataset.edge_encoder_name", "dataset"),
    "encoders/positional": ("dataset.node_encoder_name, with a group posenc_<Name>", ""),
    "models": ("model.type", "gt"),
    "layers/local": ("gt.layer_type (and gnn.layer_type of model gnn)", "gt"),
    "layers/attention": ("gt.layer_type", "gt"),
    "layers/blocks": ("gt.layer_type, gnn.layer_type: complete layers", "gt"),
    "heads": ("gnn.head", "gnn"),
    "tasks/losses": ("model.loss_fun", "model"),
    "tasks/metrics": ("custom_metrics", ""),
    "train/optimizers": ("optim.optimizer", "optim"),
    "train/schedules": ("optim.scheduler", "optim"),
}
"""Namespace -> the key that names its components, and the group of their sections."""


@dataclass(frozen=True)
class KeyEntry:
    """One line of the reference.

    Attributes:
        name: dotted name.
        key: type, default, allowed values.
        meaning: one line, empty where nothing is documented.
    """

    name: str
    key: Key
    meaning: str


def key_entries() -> Iterator[KeyEntry]:
    """All keys that have an effect: those of the schema, then those of all registered components."""
    for name, key in SCHEMA.items():
        if not key.inert:
            yield KeyEntry(name, key, key.help)
    for namespace in SECTIONS:
        for name in registry.names(namespace):
            component = registry.lookup(namespace, name)
            if component.registered_name == name:
                yield from component_entries(namespace, component)


def component_entries(namespace: str, component: Any) -> Iterator[KeyEntry]:
    """Keys that a component brings along, with what its docstrings say about them."""
    name, group = component.registered_name, SECTIONS[namespace][1]
    if namespace == registry.POSITIONAL_ENCODERS:
        listed = f"posenc_{name}" in GROUPS  # its keys are the schema's
        keys = {} if listed else dict(encoding_keys(name))
    else:
        own = component_keys(component) if group else {}
        keys = {f"{group}.{name}.{argument}": key for argument, key in own.items()}
    meanings = _meanings(component) if keys else {}
    if namespace == registry.POSITIONAL_ENCODERS and component.transform is not None:
        meanings = {**_meanings(registry.lookup(registry.TRANSFORMS, component.transform)), **meanings}
    for full, key in keys.items():
        yield KeyEntry(full, key, meanings.get(full.rpartition(".")[2], key.help))


def allowed_text(key: Key) -> str:
    """Values that a key takes, in words."""
    if key.allowed is not None:
        return ", ".join(str(value) for value in key.allowed)
    if key.namespaces:
        return "names of " + ", ".join(key.namespaces)
    kind = key.kind.__name__ + (f" of {key.item.__name__}" if key.item else "")
    return (
        kind
        + (f", at least {key.minimum:g}" if key.minimum is not None else "")
        + (f", at most {key.maximum:g}" if key.maximum is not None else "")
        + (" or none" if key.optional else "")
    )


def docstring_entries(text: str, section: str) -> dict[str, str]:
    """The entries of a section of a docstring: name -> meaning."""
    body = re.split(r"\n(?=\S)", text.partition(f"{section}:\n")[2])[0]
    entries = re.findall(r"^    (\w+): ((?:.|\n        )+)", body, re.MULTILINE)
    return {name: without_roles(" ".join(about.split())) for name, about in entries}


def without_roles(text: str) -> str:
    """A docstring's text without Sphinx's roles and double backticks."""
    return re.sub(r":class:`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", text).replace("``", "`")


def _meanings(component: Any) -> dict[str, str]:
    """Meanings of parameters, from the docstrings of the component, its base classes, and dataclasses it takes."""
    settings = {parameter.settings for parameter in registry.parameters(component).values() if parameter.settings}
    meanings: dict[str, str] = {}
    for documented in (*settings, *reversed(inspect.getmro(component))):
        text = (documented.__doc__ or "") if documented is not object else ""
        for section in ("Attributes", "Args"):
            meanings |= docstring_entries(inspect.cleandoc(text), section)
    return meanings
