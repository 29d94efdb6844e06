"""Tests mirror the package: a module's tests are found in the folder of its room."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from tests.paths import ROOT

PACKAGE, TESTS = ROOT / "graphbench", ROOT / "tests"
MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")
FOLDERS = sorted({path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")} - {Path()})
ABOUT_ALL_COMPONENTS = re.compile(r"registry\.(names|components)\(|NAMESPACES")
OUTSIDE = ("study", "additions")
"""Folders of tests that mirror something else than the package."""


@pytest.mark.parametrize("folder", [folder for folder in FOLDERS if folder.parts[0] not in OUTSIDE], ids=str)
def test_a_folder_of_tests_is_a_room(folder: Path) -> None:
    assert (PACKAGE / folder).is_dir() or (PACKAGE / folder.with_suffix(".py")).is_file()


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_a_module_is_tested_in_its_room(module: Path) -> None:
    """By a file of its name, by one of its package's name, by one that imports it, or by the suite of its base class.

    Whole programs are tested at the top of ``tests``: that counts for the modules at the top of the package.
    """
    named = [module.with_suffix(""), *module.parents[:-1]]
    if any((TESTS / name.parent / f"test_{name.name}.py").is_file() for name in named):
        return
    room = module.parts[0] if len(module.parts) > 1 else ""
    files = [path for path in _imports() if not room or path.relative_to(TESTS).parts[0] == room]
    dotted = ".".join(("graphbench", *module.with_suffix("").parts))
    if any(dotted in _imports()[path] for path in files):
        return
    if len(module.parts) > 1 and re.search(r"^@(registry\.)?register\(", (PACKAGE / module).read_text(), re.MULTILINE):
        assert any(ABOUT_ALL_COMPONENTS.search(path.read_text()) for path in files), f"no test of all of {room}"
        return
    pytest.fail(f"no file in tests/{room} is named after {dotted} or imports it")


@functools.cache
def _imports() -> dict[Path, set[str]]:
    """Test files and the modules that each imports, or whose names it imports."""
    imported: dict[Path, set[str]] = {}
    for path in TESTS.rglob("*.py"):
        modules = imported.setdefault(path, set())
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                modules.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                modules.update({node.module, *(f"{node.module}.{alias.name}" for alias in node.names)})
    return imported
