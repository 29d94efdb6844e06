"""Signatures of components: which parameters a constructor has, and who fills them."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, TypeVar

from graphbench.errors import UserError

T = TypeVar("T")


class _Unset:
    """Type of :data:`UNSET`, of which there is one: a copy, or what comes out of a pickle, is the same object."""

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return "UNSET"


UNSET: Any = _Unset()
"""Value of a context's field that has nothing to say: the parameter keeps its own default."""

_FROM_CONTEXT = "filled from the context"
FromContext: TypeAlias = Annotated[T, _FROM_CONTEXT]
"""Annotation of a parameter whose value comes from the context: ``dropout: FromContext[float] = 0.0``."""

_NO_LIMIT = "infinity is valid"
OrInfinity: TypeAlias = Annotated[T, _NO_LIMIT]
"""Annotation of a number that may be infinite, e.g. a penalty whose limit is a constraint."""


@dataclass(frozen=True)
class Parameter:
    """One constructor parameter of a component, or a field of a dataclass that is one.

    Attributes:
        name: name in the signature.
        annotation: type of the parameter, without ``FromContext``.
        default: :data:`UNSET` where it has none.
        from_context: whether the context fills it.
        argument: name of the constructor argument, other than ``name`` for a field of a dataclass.
        settings: dataclass that the parameter is a field of, None where it is an argument by itself.
        no_limit: whether infinity is valid.
    """

    name: str
    annotation: Any
    default: Any
    from_context: bool
    argument: str
    settings: type | None = None
    no_limit: bool = False


def parameters(component: Callable[..., Any]) -> Mapping[str, Parameter]:
    """Constructor parameters by name, annotations resolved to types (``self``, ``*args``, ``**kwargs`` left out).

    Raises:
        UserError: a dataclass of settings has a field with the name of another parameter.
    """
    return _parameters(component)


@functools.cache
def _parameters(component: Any) -> Mapping[str, Parameter]:
    # The fields of a dataclass may be inherited from another module, in which their types are to be looked up.
    whole = dataclasses.is_dataclass(component) or not inspect.isclass(component)
    hints = typing.get_type_hints(component if whole else component.__init__, include_extras=True)
    by_name: dict[str, Parameter] = {}
    for argument in inspect.signature(component).parameters.values():
        if argument.kind not in (argument.POSITIONAL_OR_KEYWORD, argument.KEYWORD_ONLY):
            continue
        for parameter in _of_argument(argument, hints.get(argument.name, _type_of_default(argument.default))):
            if parameter.name in by_name:
                raise UserError(f"{component.__qualname__} has two parameters '{parameter.name}'.")
            by_name[parameter.name] = parameter
    return by_name


def _type_of_default(default: Any) -> Any:
    """Type of a parameter without annotation: that of a default which a YAML can express, else Any."""
    return type(default) if type(default) in (bool, int, float, str) else Any


def _of_argument(argument: inspect.Parameter, annotation: Any) -> list[Parameter]:
    """The parameter that a constructor argument is, or the fields of the dataclass that it takes."""
    default = UNSET if argument.default is argument.empty else argument.default
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        fields = [
            dataclasses.replace(field, argument=argument.name, settings=annotation)
            for field in _parameters(annotation).values()
        ]
        if default is UNSET:
            return fields
        return [dataclasses.replace(field, default=getattr(default, field.name)) for field in fields]
    notes: list[Any] = []
    if typing.get_origin(annotation) is Annotated:
        annotation, *notes = typing.get_args(annotation)
    return [
        Parameter(
            argument.name, annotation, default, _FROM_CONTEXT in notes, argument.name, no_limit=_NO_LIMIT in notes
        )
    ]
