"""Texts of users' code that a number depends on: plug-ins, the modules that they import, classes of a running script.

What a text imports is read from the text, not from what happens to be loaded: every process finds the same. A module
counts where it is the user's: not of Python, not of this package, not installed (``site-packages``).
"""

from __future__ import annotations

import ast
import inspect
import linecache
import logging
import secrets
import symtable
import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from graphbench import plug_ins

logger = logging.getLogger("graphbench")

_MAIN = ("__main__", "__mp_main__")
_PLAIN = (bool, int, float, complex, str, bytes, type(None))

_texts: dict[Path, tuple[object, bytes]] = {}
"""File -> how it was loaded (its spec, which a reload replaces) and its text then."""

_without_source: WeakKeyDictionary[type, bytes] = WeakKeyDictionary()


def of_component(component: type) -> dict[str, bytes]:
    """Texts that a class of users and its bases come from, and what those import, by module; none for ours.

    A class of the running script or notebook counts by its own text and by what that names: functions, classes and
    plain values beside it. Editing another line of the script changes nothing.
    """
    found: dict[str, bytes] = {}
    for base in component.__mro__:
        _add(base, found)
    return found or _of_installed(component)


def of_registered(name: str, component: type, listed: Collection[bytes]) -> bytes:
    """Texts of :func:`of_component` together, but for those of plug-ins that a configuration lists.

    Args:
        name: name that the component is registered with.
        component: a class of users.
        listed: sources of the plug-ins, and of what they import.

    Returns:
        Empty where all is listed; where there is no source, what no other process can have.
    """
    found: dict[str, bytes] = {}
    for base in component.__mro__:
        _add(base, found, listed)
    found = found or _of_installed(component)
    if not found and component not in _without_source:
        _without_source[component] = secrets.token_bytes()
        logger.warning("%s: its source cannot be read: its runs are never skipped or resumed by another process.", name)
    return b"".join(text for text in found.values() if text not in listed) if found else _without_source[component]


def _of_installed(component: type) -> dict[str, bytes]:
    """Texts of the installed package that a class comes from, by path; none for ours.

    Of a package that has an entry point for plug-ins all modules count, of another the module of the class.
    """
    module = component.__module__
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None or module in _MAIN or module.partition(".")[0] == __package__:
        return {}
    return {**plug_ins.of_installed(module)} or {module: _text(module, Path(file))}


def imported_by(plugin: str) -> dict[str, bytes]:
    """Texts of the users' modules that a plug-in imports, directly or not, without its own; by path.

    Args:
        plugin: name of its module.
    """
    own = plug_ins.texts(plugin)
    found = _imported((".".join(Path(path).parts[:-1]), text) for path, text in own.items())
    return {path: text for path, text in found.items() if path not in own}


def _add(code: Any, found: dict[str, bytes], listed: Collection[bytes] | None = None) -> None:
    """Adds the text of a class or function, and what it depends on, if it is the user's.

    Args:
        code: class or function.
        found: texts by module, added to.
        listed: sources of the plug-ins that count as such; None: of all. Of others the modules count, as if no
            configuration of this process had listed them.
    """
    module = code.__module__
    plugin = plug_ins.of_module(module)
    source = b"" if plugin is None else b"".join(plug_ins.texts(plugin).values())
    if plugin is not None and (listed is None or source in listed or plug_ins.origin(plugin) != plugin):
        found.setdefault(plugin, source)
        found.update(imported_by(plugin))
    elif module in _MAIN:
        _add_definition(code, found)
    elif module:
        found.update(_imported([("", f"import {module}".encode())]))


def _add_definition(code: Any, found: dict[str, bytes]) -> None:
    """Adds the text of a class or function of the running script, and what that text names of the script."""
    text, name = _definition(code), code.__qualname__
    if text is None or name in found:
        return
    found[name] = text.encode()
    here = vars(sys.modules[code.__module__])
    for used in sorted(set(_global_names(symtable.symtable(text, name, "exec"))) & here.keys()):
        value = here[used]
        if isinstance(value, ModuleType):
            found.update(_imported([("", f"import {value.__name__}".encode())]))
        elif inspect.isclass(value):
            for base in value.__mro__:
                _add(base, found)
        elif inspect.isfunction(value):
            _add(value, found)
        elif _is_plain(value):
            found[used] = repr(value).encode()


def _definition(code: Any) -> str | None:
    """Text of a class or function, its decorators included; None where there is none (typed at a prompt)."""
    inside = [inspect.unwrap(getattr(member, "__func__", member)) for member in (code, *vars(code).values())]
    codes = [member.__code__ for member in inside if inspect.isfunction(member)]
    files = [(member.co_filename, member.co_firstlineno) for member in codes]
    main = getattr(sys.modules.get(code.__module__), "__file__", None)
    for file, line in [*files, *([(main, 0)] if main else [])]:
        lines = linecache.getlines(file)
        with suppress(SyntaxError):
            spans = [
                (min([node.lineno, *(each.lineno for each in node.decorator_list)]), node.end_lineno or node.lineno)
                for node in ast.walk(ast.parse("".join(lines)))
                if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == code.__name__
            ]
            if spans:
                first, last = next((span for span in spans if span[0] <= line <= span[1]), spans[-1])
                return textwrap.dedent("".join(lines[first - 1 : last]))
    return None


def _global_names(table: symtable.SymbolTable) -> Iterator[str]:
    """Names that a text takes from its surroundings."""
    top = table.get_type() == "module"
    yield from (each.get_name() for each in table.get_symbols() if each.is_global() or (top and each.is_referenced()))
    for inner in table.get_children():
        yield from _global_names(inner)


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, _PLAIN) or (isinstance(value, dict) and _is_plain([*value, *value.values()]))


def _imported(texts: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
    """Texts of the users' modules that some texts import, directly or not, by path.

    Args:
        texts: package that relative imports start from, and text, of each.
    """
    found: dict[str, bytes] = {}
    waiting = list(texts)
    while waiting:
        for name in _names_imported(*waiting.pop(0)):
            for module, file in _files_of(name):
                parts, is_package = module.split("."), file.stem == "__init__"
                path = "/".join([*parts, "__init__.py"] if is_package else [*parts[:-1], f"{parts[-1]}.py"])
                if path not in found:
                    found[path] = _text(module, file)
                    waiting.append((".".join(parts if is_package else parts[:-1]), found[path]))
    return found


def _names_imported(package: str, text: bytes) -> list[str]:
    """Modules (and names in modules) that a text imports, dotted."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    names: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= dict.fromkeys(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".") if node.level else []
            above = parts[: len(parts) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            names |= dict.fromkeys([base, *(f"{base}.{alias.name}" for alias in node.names)])
    return [name for name in names if name]


def _files_of(name: str) -> list[tuple[str, Path]]:
    """Modules on the way to a dotted name, with their files; none from the first on that is not the user's."""
    found: list[tuple[str, Path]] = []
    search: Any = None
    parts = name.split(".")
    for module in (".".join(parts[: end + 1]) for end in range(len(parts))):
        loaded = sys.modules.get(module)
        if module in _MAIN or (loaded is None and module in sys.builtin_module_names):
            break
        if loaded is not None:
            file, search = getattr(loaded, "__file__", None), getattr(loaded, "__path__", None)
        else:
            spec = PathFinder.find_spec(module, search)
            if spec is None:
                break
            file, search = spec.origin if spec.has_location else None, spec.submodule_search_locations
        if file is not None:
            if not plug_ins.is_users_file(Path(file)):
                break
            found.append((module, Path(file)))
        if search is None:
            break
    return found


def _text(module: str, file: Path) -> bytes:
    """Text of a module as it was when it was imported, as far as that can be had."""
    spec = getattr(sys.modules.get(module), "__spec__", None)
    known = _texts.get(file)
    if known is None or spec is None or known[0] is not spec:
        _texts[file] = known = (spec, file.read_bytes())
    return known[1]
