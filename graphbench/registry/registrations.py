"""Registration, lookup and construction of components."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast, overload

from graphbench import plug_ins
from graphbench.errors import ArgumentError, UserError, unknown
from graphbench.registry.checks import check_contract, check_module, is_module, namespaces_of, no_namespace
from graphbench.registry.namespaces import FAMILIES, NAMESPACES, Namespace, imported
from graphbench.registry.signature import UNSET, parameters
from graphbench.registry.source_names import modules_by_name

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from torch import nn

T = TypeVar("T")
Component = TypeVar("Component", bound=Callable[..., Any])


class Construction(NamedTuple):
    """One call of :func:`construct`: the component, its arguments, and the context that filled the others."""

    component: Any
    arguments: Mapping[str, Any]
    context: DataclassInstance | None


_registered: dict[str, dict[str, Callable[..., Any]]] = {namespace: {} for namespace in NAMESPACES}
_groups: dict[Callable[..., Any], str] = {}
_watching: list[list[Construction]] = []


def register(
    name: str, *aliases: str, namespace: str | None = None, group: str = ""
) -> Callable[[Component], Component]:
    """Class decorator: makes the component available under ``name`` and ``aliases``, in this package literal strings.

    Args:
        name: used in YAML files; also stored on the class as ``registered_name``.
        aliases: further names for the same component.
        namespace: default: the package that the class lies in, outside ``graphbench`` that of its base class.
        group: group of GraphGPS's vocabulary whose keys are arguments of the component (``gt.bigbird``).

    Raises:
        UserError: the name is taken, the class breaks the contract of its namespace, or has none.
    """

    def decorate(component: Component) -> Component:
        fitting = [namespace] if namespace else namespaces_of(component)
        if len(fitting) != 1 or fitting[0] not in _registered:
            raise no_namespace(name, component, fitting)
        where = fitting[0]
        check_contract(where, component)
        for alias in (name, *aliases):
            if "+" in alias:
                raise UserError(
                    f"{plug_ins.place(component)}: the name '{alias}' has a '+', which joins names in a configuration."
                )
            present = _registered[where].get(alias)
            if (
                present is None
                and alias in modules_by_name(where)
                and not component.__module__.startswith("graphbench.")
            ):
                present = lookup(where, alias)
            if present is not None and not _same_source(present, component):
                raise UserError(
                    f"{plug_ins.place(component)}: the name '{alias}' is already taken in {where} by "
                    f"{present.__qualname__} of {plug_ins.place(present)}. Versions of one plug-in need a process each."
                )
            _registered[where][alias] = component
        component.registered_name = name  # type: ignore[attr-defined]
        if group:
            _groups[component] = group
        return component

    return decorate


def is_known(namespace: str, name: str) -> bool:
    """Whether a name is one of :func:`names`."""
    return name in _registered[namespace] or name in modules_by_name(namespace)


def register_family_member(namespace: str, name: str) -> bool:
    """Whether there is a component of this name; one of a family (:data:`FAMILIES`) is registered first."""
    if is_known(namespace, name):
        return True
    families = FAMILIES.get(namespace, {})
    return any(name.startswith(prefix) and imported(path)(name) for prefix, path in families.items())


@overload
def lookup(namespace: Namespace[T], name: str, where: str | None = None) -> type[T]: ...
@overload
def lookup(namespace: str, name: str, where: str | None = None) -> Any: ...
def lookup(namespace: str, name: str, where: str | None = None) -> Any:
    """The component called ``name``.

    Args:
        namespace: one of :data:`NAMESPACES`, or its path where that is data.
        name: registered name or alias.
        where: ``file:line`` of the request, for the message.

    Raises:
        UserError: no such name; the message lists the valid ones and the nearest.
    """
    if not is_known(namespace, name):
        plug_ins.load_installed()
    if name not in _registered[namespace]:
        module = modules_by_name(namespace).get(name)
        if module is None:
            raise unknown(f"name in {namespace}", name, names(namespace), where, listed="graphbench list")
        importlib.import_module(module)
    return _registered[namespace][name]


def names(namespace: str) -> list[str]:
    """Every name (aliases included), sorted; imports nothing."""
    return sorted({*_registered[namespace], *modules_by_name(namespace)})


def names_of_users(namespace: str) -> list[str]:
    """Names from :func:`names` that lie outside this package."""
    registered = _registered[namespace].items()
    return sorted(name for name, component in registered if not component.__module__.startswith("graphbench."))


@overload
def components(namespace: Namespace[T]) -> list[type[T]]: ...
@overload
def components(namespace: str) -> list[Any]: ...
def components(namespace: str) -> list[Any]:
    """Every component once, in the order of the names they were registered with; imports all of them."""
    components = {lookup(namespace, name) for name in names(namespace)}
    return sorted(components, key=lambda component: str(component.registered_name))


def group_of(component: Callable[..., Any]) -> str:
    """Group of the configuration whose keys are arguments of a component, next to its own section; empty for none."""
    return _groups.get(component, "")


def forget(namespace: str, *forgotten: str) -> None:
    """Removes names, for tests that register components of their own."""
    for name in forgotten:
        _registered[namespace].pop(name, None)


def construct(component: Callable[..., T], arguments: Mapping[str, Any], context: DataclassInstance | None = None) -> T:
    """Calls ``component`` with what its signature asks for.

    A parameter takes its value from ``arguments`` (what the user set for this component), else, if it is annotated
    ``FromContext``, from the field of ``context`` with its name, else from its default.

    Args:
        component: a registered class.
        arguments: values by parameter name; names that the signature lacks are ignored.
        context: an instance of the namespace's context, or None.

    Raises:
        TypeError: a parameter without default has a value in neither.
        ArgumentError: another value for what is fixed in the context.
        ContractError: a module whose constructor does not call that of ``nn.Module``, or that keeps modules or
            parameters where PyTorch does not find them.
    """
    values: dict[str, Any] = {}
    settings: dict[str, type] = {}
    fields: dict[str, dict[str, Any]] = {}
    for name, parameter in parameters(component).items():
        supplied = getattr(context, name) if parameter.from_context and context is not None else UNSET
        value = arguments[name] if name in arguments else supplied
        if supplied is not UNSET and name in getattr(context, "fixed", ()) and value != supplied:
            raise ArgumentError(
                name,
                f"{name} of {component.__qualname__} is {supplied} in this model, received {value}; leave it out. A "
                "width that the component has inside needs a name of its own",
            )
        if value is UNSET and parameter.default is UNSET:
            raise TypeError(
                f"{component.__qualname__} needs '{name}', which neither its arguments nor the context have"
            )
        if parameter.settings is not None:
            settings[parameter.argument] = parameter.settings
            fields.setdefault(parameter.argument, {})[name] = parameter.default if value is UNSET else value
        elif value is not UNSET:
            values[name] = value
    for argument, settings_class in settings.items():
        values[argument] = settings_class(**fields[argument])
    made = component(**values)
    for watched in _watching:
        watched.append(Construction(component, arguments, context))
    if is_module(component):
        check_module(component, cast("nn.Module", made))
    return made


@contextmanager
def constructions() -> Iterator[list[Construction]]:
    """Record of the calls of :func:`construct` made inside the ``with`` block, in order."""
    made: list[Construction] = []
    _watching.append(made)
    try:
        yield made
    finally:
        _watching.pop()


def _same_source(a: Any, b: Any) -> bool:
    """True when one definition was merely executed twice (reloaded module, edited plug-in)."""
    return (plug_ins.origin(a.__module__), a.__qualname__) == (plug_ins.origin(b.__module__), b.__qualname__)
