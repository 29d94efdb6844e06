"""Contracts of components: what the code around them relies on."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from graphbench import plug_ins
from graphbench.errors import ContractError, UserError, unknown
from graphbench.registry.namespaces import NAMESPACES, base_class, context_class
from graphbench.registry.signature import parameters

if TYPE_CHECKING:
    from torch import nn


def check_contract(namespace: str, component: Callable[..., Any]) -> None:
    """Refuses a component that is not what the code around it relies on.

    Raises:
        UserError: another base class, abstract members left open, or a context parameter that does not exist.
    """
    base = base_class(namespace)

    def who() -> str:  # the source is searched for the line of a class only where there is something to say
        return f"{plug_ins.place(component)}: {component.__qualname__} (in {namespace})"

    if not (inspect.isclass(component) and issubclass(component, base)):
        raise UserError(f"{who()} must be a subclass of {base.__module__}.{base.__qualname__}.")
    open_members = [
        name for name in dir(component) if getattr(getattr(component, name, None), "__isabstractmethod__", False)
    ]
    if open_members:
        raise UserError(f"{who()} lacks {', '.join(open_members)}; see {base.__module__}.{base.__qualname__}.")
    for name, asked in _abstract_methods(component):
        taken = inspect.signature(getattr(component, name))
        try:
            taken.bind(*asked)
        except TypeError:
            raise UserError(f"{who()}: {name}{taken} must take ({', '.join(asked)}).") from None
    offered = [field.name for field in dataclasses.fields(context_class(namespace))]
    for parameter in parameters(component).values():
        if parameter.from_context and parameter.name not in offered:
            raise unknown(f"FromContext parameter of {component.__qualname__}", parameter.name, offered, who())
        if parameter.annotation is Any and not parameter.from_context and parameter.name in offered:
            raise UserError(
                f"{who()}: the parameter '{parameter.name}' has no annotation; the context fills it with "
                f"{parameter.name}: FromContext[...]."
            )


def _abstract_methods(component: type) -> Iterator[tuple[str, list[str]]]:
    """Methods that the base classes declare, and the parameters that every call gives them."""
    for base in component.__mro__[1:]:
        for name, member in vars(base).items():
            if inspect.isfunction(member) and getattr(member, "__isabstractmethod__", False):
                given = inspect.signature(member).parameters.values()
                if not any(one.kind is one.VAR_POSITIONAL for one in given):
                    yield name, [one.name for one in given if one.default is one.empty]


def check_module(component: Callable[..., Any], made: nn.Module) -> None:
    """Refuses a module of which PyTorch does not know all: what it does not know is never trained, saved or moved.

    Raises:
        ContractError: without ``super().__init__()``; modules or parameters in a list, a tuple or a dictionary alone.
    """
    if "_modules" not in vars(made):
        raise ContractError(
            f"{plug_ins.place(component)}: {component.__qualname__}.__init__ must call super().__init__() first"
        )
    modules = list(made.modules())
    known = {id(each) for module in modules for each in (module, *module._parameters.values())}
    for module in modules:
        for name, value in vars(module).items():
            if not (isinstance(value, list | tuple | dict) and value):
                continue  # as most of the dictionaries of a module are
            lost = [x for x in (value.values() if isinstance(value, dict) else value) if id(x) not in known]
            kind = "Module" if any(is_module(type(x)) for x in lost) else "Parameter"
            if kind == "Module" or any(getattr(x, "requires_grad", None) is True and x.is_leaf for x in lost):
                container = f"nn.{kind}{'Dict' if isinstance(value, dict) else 'List'}"
                what = f"'{name}' of {type(module).__qualname__} is a {type(value).__name__} of {kind.lower()}s"
                raise ContractError(
                    f"{plug_ins.place(component)}: {component.__qualname__}: {what}, which PyTorch neither trains nor "
                    f"saves nor moves to a device; make it an {container}."
                )


def is_module(component: Callable[..., Any]) -> bool:
    """Whether a component is an ``nn.Module``; told by an attribute, because this package does not import PyTorch."""
    return hasattr(component, "register_module")


def namespaces_of(component: Callable[..., Any]) -> list[str]:
    """The package that a component lies in, or the namespaces whose base class it has."""
    parts = component.__module__.split(".")
    if parts[0] == "graphbench":
        prefixes = ("/".join(parts[1:end]) for end in range(len(parts) - 1, 1, -1))
        return [next((prefix for prefix in prefixes if prefix in NAMESPACES), "")]
    bases = inspect.getmro(component) if inspect.isclass(component) else ()
    places = {f"{base.__module__}:{base.__qualname__}" for base in bases}
    return [namespace for namespace, contract in NAMESPACES.items() if contract.base in places]


def no_namespace(name: str, component: Callable[..., Any], fitting: Sequence[str]) -> UserError:
    """The error of a component that fits no namespace, or several."""
    who = f"{plug_ins.place(component)}: @register('{name}') of {component.__qualname__}"
    if len(fitting) > 1:
        return UserError(f"{who} fits {' and '.join(fitting)}: say which, namespace='{fitting[0]}'.")
    if fitting and fitting[0]:
        return unknown("namespace", fitting[0], NAMESPACES, who)
    bases = dict.fromkeys(contract.base.replace(":", ".") for contract in NAMESPACES.values())
    return UserError(f"{who} finds no namespace: derive the class from one of {', '.join(bases)}, or say namespace=...")
