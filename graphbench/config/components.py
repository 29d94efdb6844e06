"""Keys that components bring along: every constructor parameter that the context does not fill.

``gt.layer_type: GCN+SGFormer`` opens the sections ``gt.GCN.*`` and ``gt.SGFormer.*`` with the keys, types and defaults
of the constructors. A parameter that the context fills may be set there as well, and then wins.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from graphbench import plug_ins, registry, user_code
from graphbench.config.data_keys import ENCODING
from graphbench.config.key import Key
from graphbench.config.layer_type import component_names
from graphbench.config.schema import GROUPS, SCHEMA, namespaces_of_group
from graphbench.config.values import key_of
from graphbench.errors import UserError, unknown
from graphbench.registry import UNSET

_NAMING = {name: key for name, key in SCHEMA.items() if key.namespaces}


def component_of_section(group: str, name: str) -> Any | None:
    """The component whose keys are ``<group>.<name>.*``; None where there is none."""
    for namespace in namespaces_of_group(group):
        if namespace != registry.POSITIONAL_ENCODERS and registry.is_known(namespace, name):
            return registry.lookup(namespace, name)
    return None


@functools.cache
def settable_keys(component: Any) -> Mapping[str, Key]:
    """Keys of a component's section by parameter name: all whose type a YAML can express."""
    keys = {name: key_of(parameter) for name, parameter in registry.parameters(component).items()}
    return {name: key for name, key in keys.items() if key is not None}


@functools.cache
def component_keys(component: Any) -> Mapping[str, Key]:
    """Keys of :func:`settable_keys` that have a default and neither the context nor another group fills."""
    group = registry.group_of(component)
    filled = set(GROUPS[group]) if group else set()
    return {
        name: key
        for name, key in settable_keys(component).items()
        if not (parameter := registry.parameters(component)[name]).from_context
        and parameter.default is not UNSET
        and name not in filled
    }


def encoding_keys(name: str) -> Mapping[str, Key]:
    """Keys ``posenc_<name>.*`` of an encoder that the schema does not list: its arguments and its transform's."""
    encoder = registry.lookup(registry.POSITIONAL_ENCODERS, name)
    keys = {"enable": ENCODING["enable"]}
    if encoder.transform is not None:
        keys |= component_keys(registry.lookup(registry.TRANSFORMS, encoder.transform))
    parameters = registry.parameters(encoder)
    own = settable_keys(encoder)  # type: ignore[arg-type]  # mypy takes no class of modules for hashable
    keys |= {name: key for name, key in own.items() if not parameters[name].from_context}
    if "dim_pe" in keys and keys["dim_pe"].default is None:
        keys["dim_pe"] = ENCODING["dim_pe"]
    return {f"posenc_{name}.{argument}": key for argument, key in keys.items()}


def sections_in_use(values: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """(group, name, key that names it) of every component that a configuration names, and its model.

    Args:
        values: values by dotted key; what is missing has its default.
    """
    for key, declared in _NAMING.items():
        # A model's own arguments are keys below gt, next to those of its layers.
        section = "gt" if key == "model.type" else key.rpartition(".")[0]
        for name in component_names(values.get(key, declared.default)):
            yield section, name, key


def components_of_users(values: Mapping[str, Any]) -> dict[str, type]:
    """Components of users that a configuration names, and transforms of its encoders, by name.

    Args:
        values: values by dotted key.
    """
    named: dict[str, type] = {}
    for key, declared in _NAMING.items():
        for name in component_names(values.get(key, declared.default)):
            for namespace in declared.namespaces:
                if name in registry.names_of_users(namespace):
                    named[name] = component = registry.lookup(namespace, name)
                    transform = getattr(component, "transform", None)
                    if transform in registry.names_of_users(registry.TRANSFORMS):
                        named[transform] = registry.lookup(registry.TRANSFORMS, transform)
    return named


def code_of_components(values: Mapping[str, Any], listed: Collection[bytes]) -> dict[str, bytes]:
    """Sources of the :func:`components_of_users` that no plug-in of a configuration brings.

    Args:
        values: values by dotted key.
        listed: sources of its plug-ins, and of what they import.
    """
    named = components_of_users(values).items()
    code = {name: user_code.of_registered(name, component, listed) for name, component in named}
    return {name: source for name, source in code.items() if source}


def open_sections(values: dict[str, Any], where: Mapping[str, str]) -> None:
    """Adds the defaults of the keys of every named component, so that dump and hash are complete.

    Args:
        values: values by dotted key; changed in place.
        where: ``file:line`` of the keys that were set.

    Raises:
        UserError: a component has a parameter without default that nothing fills.
    """
    for group, name, named_by in sections_in_use(values):
        component = component_of_section(group, name) if group else None
        if component is None:
            continue
        for argument, key in component_keys(component).items():
            values.setdefault(f"{group}.{name}.{argument}", key.default)
        for parameter in registry.parameters(component).values():
            if parameter.from_context or parameter.default is not UNSET:
                continue
            if f"{group}.{name}.{parameter.name}" in values:
                continue
            line = where.get(named_by, f"{named_by} (default)")
            if parameter.name in settable_keys(component):
                raise UserError(f"{line}: {name} needs {group}.{name}.{parameter.name}, which has no default; set it.")
            raise UserError(
                f"{line}: the parameter '{parameter.name}' of {name} is no key (its type cannot be written in YAML), "
                "has no default and is not annotated FromContext[...]."
            )


def names_of_plug_ins(namespaces: Iterable[str]) -> str:
    """A sentence on what plug-ins have registered in some namespaces; empty where there are no plug-ins."""
    if not plug_ins.loaded():
        return ""
    own = sorted({name for namespace in namespaces for name in registry.names_of_users(namespace)})
    if own:
        return f" Of plug-ins: {', '.join(own)}."
    others = sorted({name for namespace in registry.NAMESPACES for name in registry.names_of_users(namespace)})
    if others:  # as where a file's own list of plug-ins takes the place of the one that it builds on
        return f" Of plug-ins none fits; those that are named register {', '.join(others)}."
    return " No plug-in registers anything: is a line @register missing?"


def _unknown_component(
    schema: Mapping[str, Key], name: str, component: str, allowed: list[str], where: str
) -> UserError:
    """The message about a component that ``name`` does not know; says which keys know it."""
    error = unknown(f"name in {name}", component, allowed, where, listed="graphbench list")
    error = UserError(f"{error}{names_of_plug_ins(schema[name].namespaces)}")
    known = [other for other, key in schema.items() if any(component in registry.names(n) for n in key.namespaces)]
    return UserError(f"{error} '{component}' is a name for {', '.join(known)}.") if known else error


def check_names(schema: Mapping[str, Key], values: Mapping[str, Any], where: Mapping[str, str]) -> None:
    """Refuses unknown components. A default may name one that this version lacks; building it would say so.

    Raises:
        UserError: naming the key and the nearest component.
    """
    for name, key in schema.items():
        if key.namespaces and values[name] != key.default:
            allowed = [*key.extra, *(known for space in key.namespaces for known in registry.names(space))]
            for component in component_names(values[name]):
                if component not in allowed:
                    raise _unknown_component(schema, name, component, allowed, where[name])
