"""Names -> components. Adding a component is adding one file; its base class and its signature are its description.

::

    from graphbench.layers.contract import GlobalAttention
    from graphbench.registry import FromContext, register

    @register("MeanField")
    class MeanField(GlobalAttention):
        def __init__(self, dim: FromContext[int], *, scale: float = 1.0): ...

- A component lies in a namespace (``layers/attention``), a package of the same path below ``graphbench``. Its modules
  are read as text to find the names they register; a module is imported when one of its names is looked up.
- Every namespace has a base class and a context (:data:`NAMESPACES`). :func:`register` refuses what does not derive
  from the base class, lacks one of its abstract members, or asks the context for what it does not offer. Its constant
  knows the base class as a type: ``lookup(HEADS, name)`` is a ``type[Head]``, which :func:`construct` makes a ``Head``.
- A parameter annotated ``FromContext[T]`` is filled from the context (widths, heads, dropout, ...); every other
  parameter is a key of the configuration below the component's name, with its type and default (without annotation:
  the type of its default). A key that the user sets wins over the context, unless it is ``fixed`` there: a width of
  what the component is handed or asked for.
- A parameter whose type is a dataclass stands for the dataclass's fields: settings that several components have in
  common, or a constructor's many settings in groups. Keys are named as the fields.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import re
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, NamedTuple, Self, TypeAlias, TypeVar, cast, overload

from graphbench import plug_ins
from graphbench.errors import ArgumentError, ContractError, UserError, unknown

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from torch import nn
    from torch.optim import Optimizer

    from graphbench.data.builder import DatasetBuilder
    from graphbench.encoders.contract import FeatureEncoder, PositionalEncoder
    from graphbench.heads.contract import Head
    from graphbench.layers.contract import Attention, Block, LocalLayer
    from graphbench.models.contract import Model
    from graphbench.tasks.loss import Loss
    from graphbench.tasks.metric import Metric
    from graphbench.train.schedule import Schedule
    from graphbench.transforms.base import Transform

T = TypeVar("T")
Component = TypeVar("Component", bound=Callable[..., Any])


class Construction(NamedTuple):
    """One call of :func:`construct`: the component, its arguments, and the context that filled the others."""

    component: Any
    arguments: Mapping[str, Any]
    context: DataclassInstance | None


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


class Namespace(str, Generic[T]):
    """Path of a namespace (``"layers/attention"``), typed by the base class ``T`` of its components.

    Attributes:
        base: ``module:Class`` of ``T``, imported when it is needed.
        context: ``module:Class`` of the frozen dataclass that ``FromContext`` parameters are fields of.
    """

    base: str
    context: str

    def __new__(cls, path: str, base: str, context: str) -> Self:  # noqa: D102
        namespace = super().__new__(cls, path)
        namespace.base, namespace.context = base, context
        return namespace


DATASETS: Namespace[DatasetBuilder] = Namespace(
    "data/datasets", "graphbench.data.builder:DatasetBuilder", "graphbench.data.context:DatasetContext"
)
TRANSFORMS: Namespace[Transform] = Namespace(
    "transforms", "graphbench.transforms.base:Transform", "graphbench.transforms.context:TransformContext"
)
NODE_ENCODERS: Namespace[FeatureEncoder] = Namespace(
    "encoders/node", "graphbench.encoders.contract:FeatureEncoder", "graphbench.encoders.contract:FeatureContext"
)
EDGE_ENCODERS: Namespace[FeatureEncoder] = Namespace(
    "encoders/edge", "graphbench.encoders.contract:FeatureEncoder", "graphbench.encoders.contract:FeatureContext"
)
POSITIONAL_ENCODERS: Namespace[PositionalEncoder] = Namespace(
    "encoders/positional",
    "graphbench.encoders.contract:PositionalEncoder",
    "graphbench.encoders.contract:PositionalContext",
)
LOCAL_LAYERS: Namespace[LocalLayer] = Namespace(
    "layers/local", "graphbench.layers.contract:LocalLayer", "graphbench.layers.contract:LayerContext"
)
ATTENTIONS: Namespace[Attention] = Namespace(
    "layers/attention", "graphbench.layers.contract:Attention", "graphbench.layers.contract:LayerContext"
)
BLOCKS: Namespace[Block] = Namespace(
    "layers/blocks", "graphbench.layers.contract:Block", "graphbench.layers.contract:LayerContext"
)
MODELS: Namespace[Model] = Namespace(
    "models", "graphbench.models.contract:Model", "graphbench.models.contract:ModelContext"
)
HEADS: Namespace[Head] = Namespace("heads", "graphbench.heads.contract:Head", "graphbench.heads.contract:HeadContext")
LOSSES: Namespace[Loss] = Namespace(
    "tasks/losses", "graphbench.tasks.loss:Loss", "graphbench.tasks.contract:LossContext"
)
METRICS: Namespace[Metric] = Namespace(
    "tasks/metrics", "graphbench.tasks.metric:Metric", "graphbench.tasks.contract:MetricContext"
)
OPTIMIZERS: Namespace[Optimizer] = Namespace(
    "train/optimizers", "torch.optim.optimizer:Optimizer", "graphbench.train.contract:OptimizerContext"
)
SCHEDULES: Namespace[Schedule] = Namespace(
    "train/schedules", "graphbench.train.schedule:Schedule", "graphbench.train.contract:ScheduleContext"
)

NAMESPACES: Mapping[str, Namespace[Any]] = {
    str(namespace): namespace
    for namespace in (
        *(DATASETS, TRANSFORMS, NODE_ENCODERS, EDGE_ENCODERS, POSITIONAL_ENCODERS, LOCAL_LAYERS, ATTENTIONS, BLOCKS),
        *(MODELS, HEADS, LOSSES, METRICS, OPTIMIZERS, SCHEDULES),
    )
}
"""Namespaces by path, for names of namespaces that are data."""

FAMILIES: Mapping[str, Mapping[str, str]] = {
    "data/datasets": {"PyG-": "graphbench.data.datasets.pyg_classes:register_class"},
}
"""Namespace -> prefix of names -> ``module:function`` that registers such a name, if there is such a thing."""

_PACKAGE = Path(__file__).parent
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
        fitting = [namespace] if namespace else _namespaces_of(component)
        if len(fitting) != 1 or fitting[0] not in _registered:
            raise _homeless(name, component, fitting)
        where = fitting[0]
        _check_contract(where, component)
        for alias in (name, *aliases):
            if "+" in alias:
                raise UserError(
                    f"{plug_ins.place(component)}: the name '{alias}' has a '+', which joins names in a configuration."
                )
            present = _registered[where].get(alias)
            if present is None and alias in _sources(where) and not component.__module__.startswith("graphbench."):
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
    return name in _registered[namespace] or name in _sources(namespace)


def register_family_member(namespace: str, name: str) -> bool:
    """Whether there is a component of this name; one of a family (:data:`FAMILIES`) is registered first."""
    if is_known(namespace, name):
        return True
    families = FAMILIES.get(namespace, {})
    return any(name.startswith(prefix) and _imported(path)(name) for prefix, path in families.items())


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
        module = _sources(namespace).get(name)
        if module is None:
            raise unknown(f"name in {namespace}", name, names(namespace), where, listed="graphbench list")
        importlib.import_module(module)
    return _registered[namespace][name]


def names(namespace: str) -> list[str]:
    """Every name (aliases included), sorted; imports nothing."""
    return sorted({*_registered[namespace], *_sources(namespace)})


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


def base_class(namespace: str) -> type:
    """Base class of every component of a namespace."""
    base: type = _imported(NAMESPACES[namespace].base)
    return base


def context_class(namespace: str) -> type:
    """The dataclass whose fields ``FromContext`` parameters are filled from."""
    context: type = _imported(NAMESPACES[namespace].context)
    return context


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
    if hasattr(component, "register_module"):
        _check_module(component, cast("nn.Module", made))
    return made


@contextmanager
def constructions() -> Iterator[list[Construction]]:
    """What :func:`construct` is called with inside the ``with``, in order."""
    made: list[Construction] = []
    _watching.append(made)
    try:
        yield made
    finally:
        _watching.pop()


def _check_module(component: Callable[..., Any], made: nn.Module) -> None:
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
            kind = "Module" if any(hasattr(type(x), "register_module") for x in lost) else "Parameter"
            if kind == "Module" or any(getattr(x, "requires_grad", None) is True and x.is_leaf for x in lost):
                container = f"nn.{kind}{'Dict' if isinstance(value, dict) else 'List'}"
                what = f"'{name}' of {type(module).__qualname__} is a {type(value).__name__} of {kind.lower()}s"
                raise ContractError(
                    f"{plug_ins.place(component)}: {component.__qualname__}: {what}, which PyTorch neither trains nor "
                    f"saves nor moves to a device; make it an {container}."
                )


def _check_contract(namespace: str, component: Callable[..., Any]) -> None:
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


def _sources(namespace: str) -> Mapping[str, str]:
    """Name -> module that registers it, read from the text of the modules of a namespace."""
    return _read_sources(str(namespace))  # a Namespace and its path are one entry


@functools.cache
def _read_sources(namespace: str) -> Mapping[str, str]:
    modules: dict[str, str] = {}
    for file in sorted((_PACKAGE / namespace).rglob("*.py")):  # files, not modules: looking for a name imports nothing
        parts = file.relative_to(_PACKAGE.parent).with_suffix("").parts
        modules.update(dict.fromkeys(_names_in(file), ".".join(parts).removesuffix(".__init__")))
    return modules


_LONGEST = 50
"""Lines of a decorator."""
_REGISTER = re.compile(r"^@(?=(?:[\w.]+\.)?register\()", re.MULTILINE)


def _names_in(file: Path) -> list[str]:
    """Names that a module registers.

    Raises:
        UserError: one of them is no literal string.
    """
    found, text = [], file.read_text(encoding="utf-8")
    for decorator in _REGISTER.finditer(text):
        call = _first_expression(text[decorator.end() :])
        if not isinstance(call, ast.Call):
            continue  # a file that cannot be imported
        given = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "name")]
        for name in given:
            if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
                line = text.count("\n", 0, decorator.start()) + name.lineno
                raise UserError(
                    f"{file}:{line}: names in @register are literal strings here, because they are read without "
                    f"importing the file; received {ast.unparse(name)}."
                )
            found.append(name.value)
    return found


def _first_expression(text: str) -> ast.expr | None:
    """The expression that the first lines of a text are, as few as possible; None for none or a long one."""
    lines = text.splitlines(keepends=True)[:_LONGEST]
    for end in range(1, len(lines) + 1):
        with suppress(SyntaxError):
            return ast.parse("".join(lines[:end]), mode="eval").body
    return None


def _namespaces_of(component: Callable[..., Any]) -> list[str]:
    """The package that a component lies in, or the namespaces whose base class it has."""
    parts = component.__module__.split(".")
    if parts[0] == "graphbench":
        prefixes = ("/".join(parts[1:end]) for end in range(len(parts) - 1, 1, -1))
        return [next((prefix for prefix in prefixes if prefix in NAMESPACES), "")]
    bases = inspect.getmro(component) if inspect.isclass(component) else ()
    places = {f"{base.__module__}:{base.__qualname__}" for base in bases}
    return [namespace for namespace, contract in NAMESPACES.items() if contract.base in places]


def _homeless(name: str, component: Callable[..., Any], fitting: Sequence[str]) -> UserError:
    who = f"{plug_ins.place(component)}: @register('{name}') of {component.__qualname__}"
    if len(fitting) > 1:
        return UserError(f"{who} fits {' and '.join(fitting)}: say which, namespace='{fitting[0]}'.")
    if fitting and fitting[0]:
        return unknown("namespace", fitting[0], NAMESPACES, who)
    bases = dict.fromkeys(contract.base.replace(":", ".") for contract in NAMESPACES.values())
    return UserError(f"{who} finds no namespace: derive the class from one of {', '.join(bases)}, or say namespace=...")


def _imported(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def _same_source(a: Any, b: Any) -> bool:
    """True when one definition was merely executed twice (reloaded module, edited plug-in)."""
    return (plug_ins.origin(a.__module__), a.__qualname__) == (plug_ins.origin(b.__module__), b.__qualname__)
