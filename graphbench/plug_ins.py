"""Code of users: files and modules that configurations name under ``plugins``, and where in it something went wrong.

Importing runs the code, which asks for the user's word where it lies outside the project. What fails in it is the
user's to mend: the message shows the frames of that code and what it called, none of those around it.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import importlib
import importlib.util
import inspect
import itertools
import logging
import os
import sys
import sysconfig
import traceback
from collections.abc import Mapping
from importlib.abc import ExecutionLoader
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from graphbench.errors import UserError

ENTRY_POINTS = "graphbench.plugins"
"""Group of entry points under which a package names the modules that register its components."""

logger = logging.getLogger("graphbench")

_sources: dict[str, dict[str, bytes]] = {}
"""Module of a plug-in -> its files by path, as they were when it was imported."""

_installed: dict[str, dict[str, bytes]] = {}
"""Installed package with an entry point -> its files by path, as they were when it was loaded."""

_files: dict[str, str] = {}
_places: set[Path] = set()
"""Files, and folders of packages, that plug-ins lie in."""

_PACKAGE = Path(__file__).resolve().parent
_INSTALLED = {"site-packages", "dist-packages"}
_LIBRARY = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")]
_CALL = str(Path("torch", "nn", "modules", "module.py"))


CONSENT = "GRAPHBENCH_ALLOW_PLUGINS"
"""Environment variable: ``1`` lets configurations name code outside the current project."""


def load_plugin(source: str, where: str | None = None, folder: Path | None = None) -> ModuleType:
    """Imports out-of-tree components from ``path/to/file.py`` or an importable module name.

    Importing runs the code. What lies below the working directory, or beside this package, is the user's own project;
    anything else that a configuration names is imported with the user's word only (:data:`CONSENT`). A file is told by
    its name and content: the copies that runs keep are one plug-in, an edited file is another.

    Args:
        source: file or module.
        where: what names it, for messages.
        folder: folder of the configuration, where a file or a module that is not loaded yet is looked for first.

    Raises:
        UserError: it lies elsewhere and nobody has allowed that; the file or module does not exist, or fails while
            being imported.
    """
    lies_in = None if folder is None else _beside_configuration(source, folder)
    if lies_in is not None and source.endswith(".py"):
        source = str(lies_in)
    _ask_consent(source, where, lies_in)
    try:
        if not source.endswith(".py"):
            if str(Path.cwd()) not in sys.path:
                sys.path.append(str(Path.cwd()))  # the command graphbench lies elsewhere
            file = lies_in or _file_of(source)
            if file is not None:
                _places.add(file.parent if file.name == "__init__.py" else file)
            return _with_source(
                _import_beside(source, folder) if lies_in and folder else importlib.import_module(source)
            )
        _places.add(Path(source).resolve())
        return _run_file(Path(source).resolve())
    except UserError:
        raise
    except (Exception, SystemExit) as error:  # a plug-in can fail in any way; the user gets one message
        told = f"{_error_text(error)}{_beside(source, error)}"
        raise UserError(f"{where + ': ' if where else ''}plug-in '{source}' cannot be loaded: {told}") from error


@functools.cache
def load_installed() -> None:
    """Imports what installed packages declare as entry points of :data:`ENTRY_POINTS`, once per process.

    Who has installed a package trusts it. One that fails is told, and leaves the others alone.
    """
    from importlib.metadata import entry_points  # here, because it reads a file of every installed package

    for entry in entry_points(group=ENTRY_POINTS):
        try:
            entry.load()
            package = entry.module.partition(".")[0]
            _installed[package] = _files_of(sys.modules[package])
        except Exception as error:  # noqa: BLE001  what code of others may raise
            logger.warning(
                "the installed plug-in %s (%s) cannot be loaded: %s", entry.name, entry.value, _error_text(error)
            )


def _beside_configuration(source: str, folder: Path) -> Path | None:
    """File of a plug-in in the folder of a configuration; None where there is none, or its module is loaded."""
    if source.endswith(".py"):
        return folder / source if (folder / source).is_file() else None
    package = source.partition(".")[0]
    files = (folder / package / "__init__.py", folder / f"{package}.py")
    return None if package in sys.modules else next((file.resolve() for file in files if file.is_file()), None)


def _import_beside(source: str, folder: Path) -> ModuleType:
    """Imports a module from a folder, whatever else has its name, and keeps the folder for processes started later."""
    place = str(folder.resolve())
    sys.path.insert(0, place)
    try:
        return importlib.import_module(source)
    finally:
        sys.path.remove(place)
        if place not in sys.path:
            sys.path.append(place)


def _beside(source: str, error: BaseException) -> str:
    """Advice where a plug-in imports a module that lies beside it."""
    name = str(error.name).partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    folder = Path(source).resolve().parent
    if not name or not source.endswith(".py") or not (folder / f"{name}.py").is_file():
        return ""
    return (
        f"\n{name}.py lies beside it. Code in several files is a package, so that runs can tell whether one of them "
        f"has changed: put an empty __init__.py beside them, import with 'from . import {name}', and name the folder: "
        f"plugins: [{folder.name}], with the command started in {folder.parent}."
    )


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
    sys.modules[name], _files[name] = module, str(path)
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    for earlier, file in _files.items():
        if file == str(path) and earlier != name:
            sys.modules.pop(earlier, None)  # its names are this one's now: an edit that is undone runs anew
    _sources[name] = {path.name: text}
    return module


class _SourceLoader(ExecutionLoader):
    """Runs a text that was read already, never bytecode, which is told by size and second alone."""

    def __init__(self, path: Path, text: bytes) -> None:
        self._path, self._text = path, text

    def get_filename(self, fullname: str) -> str:
        return str(self._path)

    def get_source(self, fullname: str) -> str:
        return importlib.util.decode_source(self._text)


def origin(module: str) -> str:
    """The file of a plug-in's module, else the module."""
    return _files.get(module, module)


def _ask_consent(source: str, where: str | None, lies_in: Path | None = None) -> None:
    file = lies_in.resolve() if lies_in is not None else _file_of(source)
    if file is None or os.environ.get(CONSENT) == "1":
        return
    project = (Path.cwd(), _PACKAGE.parent)
    installed = _INSTALLED.intersection(file.parts)  # also of an environment that lies in the project's folder
    if not installed and any(file.is_relative_to(folder) for folder in project):
        return
    raise UserError(
        f"{where + ': ' if where else ''}'{source}' names code outside the current project ({file}), and importing it "
        f"runs it. If you trust it, set {CONSENT}=1 (graphbench train takes --allow_plugins, too)."
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


def place(code: Any) -> str:
    """``file:line`` of a class or function, for messages; its module where there is no source."""
    try:
        return f"{inspect.getsourcefile(code)}:{inspect.getsourcelines(code)[1]}"
    except (OSError, TypeError):
        return str(code.__module__)


def failure(error: BaseException) -> str | None:
    """An exception that came out of a plug-in, as text; None where no plug-in was at work.

    Returns:
        ``file:line: in function: Type: message``, then the frames from the plug-in on, those of ``nn.Module``'s call
        left out, in the form of Python's own traceback.
    """
    frames = _frames(error)
    if not frames:
        return None
    frame, line = [(frame, line) for frame, line in frames if _is_users(frame)][-1]
    return f"{_place(frame, line)}: {_error_text(error)}"


def refused_by_us(error: BaseException) -> bool:
    """Whether a ``raise`` of this package itself made an exception, not something that it called or miscalculated."""
    last = error.__traceback__
    assert last is not None
    while last.tb_next is not None:
        last = last.tb_next
    code = last.tb_frame.f_code
    raised = dis.opname[code.co_code[last.tb_lasti]] == "RAISE_VARARGS"
    return raised and Path(code.co_filename).is_relative_to(_PACKAGE)


def raising_place(error: BaseException) -> str | None:
    """``file:line: in function`` of a plug-in's own ``raise``; None where code of others made the exception."""
    frame, line = list(traceback.walk_tb(error.__traceback__))[-1]
    return _place(frame, line) if _is_own(frame) else None


def loaded() -> list[str]:
    """Files, and folders of packages, of all plug-ins."""
    return sorted(map(str, _places))


def calling_place() -> str | None:
    """``file:line: in function`` of a plug-in, or a module beside it, whose call of a library is being answered.

    To be asked by the function that answers; None where code of ours has called, or no plug-in is at work.
    """
    stack = (frame for frame, _ in traceback.walk_stack(sys._getframe(2)))
    callers = list(itertools.dropwhile(lambda frame: _is_installed(Path(frame.f_code.co_filename)), stack))
    if not callers or not _is_users(callers[0]) or not any(map(_is_own, callers)):
        return None
    return _place(callers[0], callers[0].f_lineno)


def _place(frame: FrameType, line: int) -> str:
    return f"{frame.f_code.co_filename}:{line}: in {frame.f_code.co_qualname}"


def _error_text(error: BaseException) -> str:
    """Type, message, and the frames from the first of a plug-in on."""
    ends = isinstance(error, SystemExit)
    said = f"it ends the process ({error!r})" if ends else ": ".join(filter(None, (type(error).__name__, str(error))))
    said = said.rstrip(".")
    return f"{said}.\n{''.join(traceback.StackSummary.extract(iter(_frames(error))).format())}".rstrip()


def _frames(error: BaseException) -> list[tuple[FrameType, int]]:
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if not _calls_module(frame)]
    return list(itertools.dropwhile(lambda entry: not _is_own(entry[0]), frames))


def _calls_module(frame: FrameType) -> bool:
    return frame.f_code.co_filename.endswith(_CALL)


def _is_own(frame: FrameType) -> bool:
    file = _resolved(frame.f_code.co_filename)
    return not file.is_relative_to(_PACKAGE) and not _places.isdisjoint([file, *file.parents])


def _resolved(file: str | Path) -> Path:
    try:
        return Path(file).resolve()
    except OSError:  # a relative name, in a working directory that was deleted
        return Path(file)


def _is_users(frame: FrameType) -> bool:
    """Whether a frame is of a plug-in or a module that a user has put beside it: neither ours nor installed."""
    file = Path(frame.f_code.co_filename)
    return _is_own(frame) or is_users_file(file)


def _is_installed(file: Path) -> bool:
    return bool(_INSTALLED.intersection(file.parts)) or any(file.is_relative_to(folder) for folder in _LIBRARY)


def plugin_source(plugin: ModuleType) -> bytes:
    """Source of a plug-in, of a package that of all its files, as it was when it was imported."""
    return b"".join(texts(plugin.__name__).values())


def texts(plugin: str) -> Mapping[str, bytes]:
    """Files of a plug-in, by path from the folder that it is imported from, as they were when it was imported.

    Args:
        plugin: name of its module.
    """
    return _sources[plugin]


def files_to_keep(source: str, plugin: ModuleType) -> dict[str, bytes]:
    """Files that importing a plug-in elsewhere needs, by path beside a configuration; none of an installed one.

    Args:
        source: file or module, as the configuration names it.
        plugin: its module.
    """
    if source.endswith(".py"):
        return {source: plugin_source(plugin)}
    above = {}
    for end in range(1, len(parts := source.split("."))):
        file = getattr(sys.modules[".".join(parts[:end])], "__file__", None)
        if file is not None:
            above["/".join((*parts[:end], "__init__.py"))] = Path(file)
    own = plugin.__file__ or f"{plugin.__path__[0]}/__init__.py"
    if not all(map(is_users_file, [*above.values(), Path(own)])):
        return {}
    return {**{path: file.read_bytes() for path, file in above.items()}, **texts(source)}


def of_module(module: str) -> str | None:
    """Module of the plug-in that a module is, or lies in; None for code of others."""
    parts = module.split(".")
    return next((name for end in range(len(parts), 0, -1) if (name := ".".join(parts[:end])) in _sources), None)


def is_users_file(file: Path) -> bool:
    """Whether a file is Python source of the user: neither ours nor installed."""
    return file.suffix == ".py" and not _resolved(file).is_relative_to(_PACKAGE) and not _is_installed(file)


def of_installed(module: str) -> Mapping[str, bytes]:
    """Files of the installed package with an entry point that a module lies in; none for code of others."""
    return _installed.get(module.partition(".")[0], {})


def _with_source(plugin: ModuleType) -> ModuleType:
    if plugin.__name__ not in _sources:
        _sources[plugin.__name__] = _files_of(plugin)
    return plugin


def _files_of(plugin: ModuleType) -> dict[str, bytes]:
    """Python files of a package or module, by path from the folder that it is imported from."""
    name = plugin.__name__
    folders = [Path(folder) for folder in getattr(plugin, "__path__", ())]
    files = {
        "/".join((*name.split("."), *file.relative_to(folder).parts)): file.read_bytes()
        for folder in folders
        for file in sorted(folder.rglob("*.py"))
    }
    if not files and plugin.__file__:
        files = {"/".join(name.split(".")) + ".py": Path(plugin.__file__).read_bytes()}
    return files
