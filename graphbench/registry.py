"""Names -> classes. A room (a package below ``graphbench``) is scanned when a name in it is first looked up.

Adding a component is adding one file: the class inside says ``@register("Name")`` and the room it lies in is the
room it is found in. Code outside the package (``plugins:`` in a YAML) names the room itself::

    @register("MyAttention", room="layers/attention")
    class MyAttention(nn.Module): ...

The constructor signature is the only description of a component's arguments. :func:`parameters` reads it for the
configuration loader, :func:`construct` fills it when the component is built.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import pkgutil
import sys
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from graphbench.errors import UserError, unknown

ROOMS = (
    "data/datasets",
    "transforms",
    "encoders/node",
    "encoders/edge",
    "encoders/positional",
    "layers/local",
    "layers/attention",
    "layers/blocks",
    "models",
    "heads",
    "tasks/losses",
    "tasks/metrics",
    "train/optimizers",
    "train/schedules",
)

_components: dict[str, dict[str, Callable[..., Any]]] = {room: {} for room in ROOMS}
_scanned: set[str] = set()
T = TypeVar("T", bound=Callable[..., Any])


def register(name: str, *aliases: str, room: str | None = None) -> Callable[[T], T]:
    """Class (or function) decorator: makes the component available under ``name`` and ``aliases``.

    Args:
        name: the name used in YAML files; also stored on the class as ``registered_name``.
        aliases: further names for the same component.
        room: where it belongs; inferred from the module for code inside the package.

    Raises:
        UserError: the name is taken by another component, or a room has to be named and was not.
    """

    def decorate(component: T) -> T:
        where = room or _room_of(component.__module__)
        if where not in _components:
            raise UserError(f"{component.__module__}: @register('{name}') needs room=..., one of: {', '.join(ROOMS)}.")
        for each in (name, *aliases):
            present = _components[where].get(each)
            if present is not None and not _same_source(present, component):
                raise UserError(
                    f"{component.__module__}: the name '{each}' is already taken in {where} by "
                    f"{present.__module__}.{present.__qualname__}."
                )
            _components[where][each] = component
        component.registered_name = name  # type: ignore[attr-defined]
        return component

    return decorate


def lookup(room: str, name: str, where: str | None = None) -> Any:
    """The component called ``name`` in ``room``.

    Args:
        room: one of :data:`ROOMS`.
        name: registered name or alias.
        where: ``file:line`` of the request, for the message.

    Raises:
        UserError: no such name; the message lists the valid ones and the nearest.
    """
    scan(room)
    try:
        return _components[room][name]
    except KeyError:
        raise unknown(f"name in {room}", name, _components[room], where) from None


def names(room: str) -> list[str]:
    """Every name (aliases included) in ``room``, sorted."""
    scan(room)
    return sorted(_components[room])


def forget(room: str, *unwanted: str) -> None:
    """Removes names from a room, for tests that register components of their own."""
    for name in unwanted:
        _components[room].pop(name, None)


def scan(room: str) -> None:
    """Imports every module of a room once, so that its components register themselves."""
    if room in _scanned:
        return
    package = importlib.import_module("graphbench." + room.replace("/", "."))
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
    _scanned.add(room)


def load_plugin(source: str, where: str | None = None) -> ModuleType:
    """Imports out-of-tree components from ``path/to/file.py`` or an importable module name.

    Raises:
        UserError: the file or module does not exist, or fails while being imported.
    """
    try:
        if not source.endswith(".py"):
            return importlib.import_module(source)
        path = Path(source).resolve()
        name = f"graphbench_plugin_{path.stem}_{abs(hash(str(path)))}"
        if name in sys.modules:
            return sys.modules[name]
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None or not path.is_file():
            raise FileNotFoundError(f"no such file: {path}")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
        return module
    except UserError:
        raise
    except Exception as error:  # a plug-in can fail in any way; the user gets one message, not our traceback
        raise UserError(
            f"{where + ': ' if where else ''}plug-in '{source}' cannot be loaded: {type(error).__name__}: {error}."
        ) from error


@functools.cache
def parameters(component: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Constructor parameters by name, annotations resolved to types (``self``, ``*args``, ``**kwargs`` left out)."""
    function = component.__init__ if inspect.isclass(component) else component
    hints = typing.get_type_hints(function)
    return {
        name: parameter.replace(annotation=hints.get(name, Any))
        for name, parameter in inspect.signature(component).parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }


def construct(component: Callable[..., Any], own: Mapping[str, Any], context: Mapping[str, Any]) -> Any:
    """Calls ``component`` with what its signature asks for.

    A parameter takes its value from ``own`` (what the user wrote for this component), else from ``context`` (what
    the surroundings supply: widths, dropout, factories), else from its default.

    Raises:
        TypeError: a parameter without default is in neither (a defect of the component or of ``build.py``).
    """
    arguments: dict[str, Any] = {}
    for name, parameter in parameters(component).items():
        if name in own:
            arguments[name] = own[name]
        elif name in context:
            arguments[name] = context[name]
        elif parameter.default is parameter.empty:
            raise TypeError(f"{component.__qualname__} needs '{name}'; the context has {sorted(context)}")
    return component(**arguments)


def _room_of(module: str) -> str:
    parts = module.split(".")[1:]
    return next((room for end in range(len(parts) - 1, 0, -1) if (room := "/".join(parts[:end])) in _components), "")


def _same_source(a: Any, b: Any) -> bool:
    """True when one definition was merely executed twice (reloaded module)."""
    return (a.__module__, a.__qualname__) == (b.__module__, b.__qualname__)
