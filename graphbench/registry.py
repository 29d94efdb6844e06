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
  from the base class, lacks one of its abstract members, or asks the context for what it does not offer.
- A parameter annotated ``FromContext[T]`` is filled from the context (widths, heads, dropout, ...); every other
  parameter is a key of the configuration below the component's name, with its type and default. A key that the user
  sets wins over the context.
- A parameter whose type is a dataclass stands for the dataclass's fields: settings that several components have in
  common, or a constructor's many settings in groups. Keys are named as the fields.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib
import importlib.util
import inspect
import os
import pkgutil
import re
import sys
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.abc import ExecutionLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

from graphbench.errors import UserError, unknown

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
Component = TypeVar("Component", bound=Callable[..., Any])

UNSET: Any = type("Unset", (), {"__repr__": lambda self: "UNSET", "__bool__": lambda self: False})()
"""Value of a context's field that has nothing to say: the parameter keeps its own default."""

_FROM_CONTEXT = "filled from the context"
FromContext: TypeAlias = Annotated[T, _FROM_CONTEXT]
"""Annotation of a parameter whose value comes from the context: ``dropout: FromContext[float] = 0.0``."""


@dataclass(frozen=True)
class Namespace:
    """What components of one kind have in common.

    Attributes:
        base: ``module:Class`` that they derive from.
        context: ``module:Class`` of the frozen dataclass that their ``FromContext`` parameters are fields of; empty
            where there is nothing to be filled.
    """

    base: str
    context: str = ""


NAMESPACES: Mapping[str, Namespace] = {
    "data/datasets": Namespace("graphbench.data.builder:DatasetBuilder", "graphbench.data.context:DatasetContext"),
    "transforms": Namespace("graphbench.transforms.base:Transform", "graphbench.transforms.context:TransformContext"),
    "encoders/node": Namespace(
        "graphbench.encoders.contract:FeatureEncoder", "graphbench.encoders.contract:FeatureContext"
    ),
    "encoders/edge": Namespace(
        "graphbench.encoders.contract:FeatureEncoder", "graphbench.encoders.contract:FeatureContext"
    ),
    "encoders/positional": Namespace(
        "graphbench.encoders.contract:PositionalEncoder", "graphbench.encoders.contract:PositionalContext"
    ),
    "layers/local": Namespace("graphbench.layers.contract:LocalLayer", "graphbench.layers.contract:LayerContext"),
    "layers/attention": Namespace("graphbench.layers.contract:Attention", "graphbench.layers.contract:LayerContext"),
    "layers/blocks": Namespace("graphbench.layers.contract:Block", "graphbench.layers.contract:LayerContext"),
    "models": Namespace("graphbench.models.contract:Model", "graphbench.models.contract:ModelContext"),
    "heads": Namespace("graphbench.heads.contract:Head", "graphbench.heads.contract:HeadContext"),
    "tasks/losses": Namespace("graphbench.tasks.loss:Loss", "graphbench.tasks.contract:LossContext"),
    "tasks/metrics": Namespace("graphbench.tasks.metric:Metric", "graphbench.tasks.contract:MetricContext"),
    "train/optimizers": Namespace("torch.optim:Optimizer", "graphbench.train.contract:OptimizerContext"),
    "train/schedules": Namespace("graphbench.train.schedule:Schedule", "graphbench.train.contract:ScheduleContext"),
}

FAMILIES: Mapping[str, Mapping[str, str]] = {
    "data/datasets": {"PyG-": "graphbench.data.datasets.pyg_classes:register_class"},
}
"""Namespace -> prefix of names -> ``module:function`` that registers such a name, if there is such a thing."""

_registered: dict[str, dict[str, Callable[..., Any]]] = {namespace: {} for namespace in NAMESPACES}
_groups: dict[Callable[..., Any], str] = {}
_plugin_sources: dict[str, bytes] = {}
_plugin_files: dict[str, str] = {}


def register(
    name: str, *aliases: str, namespace: str | None = None, group: str = ""
) -> Callable[[Component], Component]:
    """Class decorator: makes the component available under ``name`` and ``aliases``, given as literal strings.

    Args:
        name: used in YAML files; also stored on the class as ``registered_name``.
        aliases: further names for the same component.
        namespace: default: the package that the class lies in, outside ``graphbench`` that of its base class.
        group: group of GraphGPS's vocabulary whose keys are arguments of the component (``gt.bigbird``).

    Raises:
        UserError: the name is taken, the class breaks the contract of its namespace, or has none.
    """

    def decorate(component: Component) -> Component:
        where = namespace or _namespace_of(component)
        if where not in _registered:
            raise UserError(
                f"{component.__module__}: @register('{name}') finds no namespace for {component.__qualname__}: derive "
                f"it from a base class of {', '.join(_bases())}, or say namespace=..."
            )
        _check_contract(where, component)
        for alias in (name, *aliases):
            present = _registered[where].get(alias)
            if present is not None and not _same_source(present, component):
                raise UserError(
                    f"{_origin(component)}: the name '{alias}' is already taken in {where} by "
                    f"{present.__qualname__} of {_origin(present)}."
                )
            _registered[where][alias] = component
        component.registered_name = name  # type: ignore[attr-defined]
        if group:
            _groups[component] = group
        return component

    return decorate


def knows(namespace: str, name: str) -> bool:
    """Whether there is a component of this name; one of a family is registered by asking."""
    if name in _registered[namespace] or name in _sources(namespace):
        return True
    families = FAMILIES.get(namespace, {})
    return any(name.startswith(prefix) and _imported(path)(name) for prefix, path in families.items())


def lookup(namespace: str, name: str, where: str | None = None) -> Any:
    """The component called ``name``.

    Args:
        namespace: one of :data:`NAMESPACES`.
        name: registered name or alias.
        where: ``file:line`` of the request, for the message.

    Raises:
        UserError: no such name; the message lists the valid ones and the nearest.
    """
    if name not in _registered[namespace]:
        module = _sources(namespace).get(name)
        if module is None:
            raise unknown(f"name in {namespace}", name, names(namespace), where)
        importlib.import_module(module)
    return _registered[namespace][name]


def names(namespace: str) -> list[str]:
    """Every name (aliases included), sorted; imports nothing."""
    return sorted({*_registered[namespace], *_sources(namespace)})


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
    """What every component of a namespace derives from."""
    base: type = _imported(NAMESPACES[namespace].base)
    return base


def context_class(namespace: str) -> type | None:
    """The dataclass whose fields ``FromContext`` parameters are filled from; None where there is none."""
    return _imported(NAMESPACES[namespace].context) if NAMESPACES[namespace].context else None


CONSENT = "GRAPHBENCH_ALLOW_PLUGINS"
"""Environment variable: ``1`` lets configurations name code outside the current project."""


def load_plugin(source: str, where: str | None = None) -> ModuleType:
    """Imports out-of-tree components from ``path/to/file.py`` or an importable module name.

    Importing runs the code. What lies below the working directory, or beside this package, is the user's own project;
    anything else that a configuration names is imported with the user's word only (:data:`CONSENT`). A file is told by
    its name and content: the copies that runs keep are one plug-in, an edited file is another.

    Raises:
        UserError: it lies elsewhere and nobody has allowed that; the file or module does not exist, or fails while
            being imported.
    """
    _ask_consent(source, where)
    try:
        if not source.endswith(".py"):
            if str(Path.cwd()) not in sys.path:
                sys.path.append(str(Path.cwd()))  # the command graphbench, other than main.py, lies elsewhere
            return _with_source(importlib.import_module(source))
        return _run_file(Path(source).resolve())
    except UserError:
        raise
    except Exception as error:  # a plug-in can fail in any way; the user gets one message, not our traceback
        raise UserError(
            f"{where + ': ' if where else ''}plug-in '{source}' cannot be loaded: {type(error).__name__}: {error}."
        ) from error


def _run_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    text = path.read_bytes()
    name = f"graphbench_plugin_{path.stem}_{hashlib.sha256(text).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    loader = _SourceLoader(path, text)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name], _plugin_files[name] = module, str(path)
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    for earlier, file in _plugin_files.items():
        if file == str(path) and earlier != name:
            sys.modules.pop(earlier, None)  # its names are this one's now: an edit that is undone runs anew
    _plugin_sources[name] = text
    return module


class _SourceLoader(ExecutionLoader):
    """Runs a text that was read already, never bytecode, which is told by size and second alone."""

    def __init__(self, path: Path, text: bytes) -> None:
        self._path, self._text = path, text

    def get_filename(self, fullname: str) -> str:
        return str(self._path)

    def get_source(self, fullname: str) -> str:
        return importlib.util.decode_source(self._text)


def _ask_consent(source: str, where: str | None) -> None:
    file = _file_of(source)
    if file is None or os.environ.get(CONSENT) == "1":
        return
    project = (Path.cwd(), Path(__file__).resolve().parents[1])
    if any(file.is_relative_to(folder) for folder in project):
        return
    raise UserError(
        f"{where + ': ' if where else ''}'{source}' names code outside the current project ({file}), and importing it "
        f"runs it. If you trust it, pass --allow_plugins or set {CONSENT}=1."
    )


def _file_of(source: str) -> Path | None:
    """The file that importing ``source`` would run, or the folder of its package; None where there is none."""
    if source.endswith(".py"):
        return Path(source).resolve()
    package = source.partition(".")[0]
    try:
        spec = importlib.util.find_spec(package)  # of the outermost package: nothing of it runs
    except (ImportError, ValueError):  # ValueError: of a module without a file, e.g. __main__
        spec = None
    if spec is None:
        return Path(f"/{package}") if package in sys.modules else None
    location = spec.origin if spec.has_location else next(iter(spec.submodule_search_locations or ()), f"/{package}")
    return Path(location or f"/{package}").resolve()


def plugin_source(plugin: ModuleType) -> bytes:
    """Source of a plug-in, of a package that of all its files, as it was when it was imported."""
    return _plugin_sources[plugin.__name__]


def _with_source(plugin: ModuleType) -> ModuleType:
    if plugin.__name__ not in _plugin_sources:
        folders = [Path(folder) for folder in getattr(plugin, "__path__", ())]
        files = [file for folder in folders for file in sorted(folder.rglob("*.py"))]
        files = files or ([Path(plugin.__file__)] if plugin.__file__ else [])
        _plugin_sources[plugin.__name__] = b"".join(file.read_bytes() for file in files)
    return plugin


@dataclass(frozen=True)
class Parameter:
    """One constructor parameter of a component, or a field of a dataclass that is one.

    Attributes:
        name: as in the signature.
        annotation: its type, without ``FromContext``.
        default: :data:`UNSET` where it has none.
        from_context: whether the context fills it.
        argument: name of the constructor argument, other than ``name`` for a field of a dataclass.
        settings: that dataclass, None where the parameter is an argument by itself.
    """

    name: str
    annotation: Any
    default: Any
    from_context: bool
    argument: str
    settings: type | None = None


def parameters(component: Callable[..., Any]) -> Mapping[str, Parameter]:
    """Constructor parameters by name, annotations resolved to types (``self``, ``*args``, ``**kwargs`` left out).

    Raises:
        UserError: a dataclass of settings has a field with the name of another parameter.
    """
    return _parameters(component)


@functools.cache
def _parameters(component: Any) -> Mapping[str, Parameter]:
    function = component.__init__ if inspect.isclass(component) else component
    hints = typing.get_type_hints(function, include_extras=True)
    by_name: dict[str, Parameter] = {}
    for argument in inspect.signature(component).parameters.values():
        if argument.kind not in (argument.POSITIONAL_OR_KEYWORD, argument.KEYWORD_ONLY):
            continue
        for parameter in _of_argument(argument, hints.get(argument.name, Any)):
            if parameter.name in by_name:
                raise UserError(f"{component.__qualname__} has two parameters '{parameter.name}'.")
            by_name[parameter.name] = parameter
    return by_name


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
    from_context = False
    if typing.get_origin(annotation) is Annotated:
        annotation, *notes = typing.get_args(annotation)
        from_context = _FROM_CONTEXT in notes
    return [Parameter(argument.name, annotation, default, from_context, argument.name)]


def construct(
    component: Callable[..., Any], arguments: Mapping[str, Any], context: DataclassInstance | None = None
) -> Any:
    """Calls ``component`` with what its signature asks for.

    A parameter takes its value from ``arguments`` (what the user set for this component), else, if it is annotated
    ``FromContext``, from the field of ``context`` with its name, else from its default.

    Args:
        component: a registered class.
        arguments: by parameter name; names that the signature lacks are ignored.
        context: an instance of the namespace's context, or None.

    Raises:
        TypeError: a parameter without default has a value in neither.
    """
    values: dict[str, Any] = {}
    settings: dict[str, type] = {}
    fields: dict[str, dict[str, Any]] = {}
    for name, parameter in parameters(component).items():
        supplied = getattr(context, name) if parameter.from_context and context is not None else UNSET
        value = arguments[name] if name in arguments else supplied
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
    return component(**values)


def _check_contract(namespace: str, component: Callable[..., Any]) -> None:
    """Refuses a component that is not what the code around it relies on.

    Raises:
        UserError: another base class, abstract members left open, or a context parameter that does not exist.
    """
    base, who = base_class(namespace), f"{component.__module__}: {component.__qualname__} (in {namespace})"
    if not (inspect.isclass(component) and issubclass(component, base)):
        raise UserError(f"{who} must be a subclass of {base.__module__}.{base.__qualname__}.")
    open_members = [
        name for name in dir(component) if getattr(getattr(component, name, None), "__isabstractmethod__", False)
    ]
    if open_members:
        raise UserError(f"{who} lacks {', '.join(open_members)}; see {base.__module__}.{base.__qualname__}.")
    context = context_class(namespace)
    offered = [field.name for field in dataclasses.fields(context)] if context else []
    for parameter in parameters(component).values():
        if parameter.from_context and parameter.name not in offered:
            raise unknown(f"FromContext parameter of {component.__qualname__}", parameter.name, offered, who)


@functools.cache
def _sources(namespace: str) -> Mapping[str, str]:
    """Name -> module that registers it, read from the text of the modules of a namespace."""
    package = importlib.import_module("graphbench." + namespace.replace("/", "."))
    modules: dict[str, str] = {}
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        spec = importlib.util.find_spec(module.name)
        if spec is None or spec.origin is None:
            continue
        for call in _REGISTER.findall(Path(spec.origin).read_text(encoding="utf-8")):
            positional = re.sub(r'\w+\s*=\s*"[^"]*"', "", call)
            modules.update(dict.fromkeys(re.findall(r'"([^"]+)"', positional), module.name))
    return modules


_REGISTER = re.compile(r"^@(?:registry\.)?register\(([^()]*)\)", re.MULTILINE)


def _namespace_of(component: Callable[..., Any]) -> str:
    """The package that a component lies in, or the namespace whose base class it has."""
    parts = component.__module__.split(".")
    if parts[0] == "graphbench":
        prefixes = ("/".join(parts[1:end]) for end in range(len(parts) - 1, 1, -1))
        return next((prefix for prefix in prefixes if prefix in NAMESPACES), "")
    bases = inspect.getmro(component) if inspect.isclass(component) else ()
    places = {f"{base.__module__}:{base.__qualname__}" for base in bases}
    fitting = [namespace for namespace, contract in NAMESPACES.items() if contract.base in places]
    return fitting[0] if len(fitting) == 1 else ""


def _bases() -> list[str]:
    return [contract.base.replace(":", ".") for contract in NAMESPACES.values()]


def _imported(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def _same_source(a: Any, b: Any) -> bool:
    """True when one definition was merely executed twice (reloaded module, edited plug-in)."""
    return (_origin(a), a.__qualname__) == (_origin(b), b.__qualname__)


def _origin(component: Any) -> str:
    """The module of a component; of a plug-in its file."""
    module: str = component.__module__
    return _plugin_files.get(module, module)
