"""The agreement of all operators (docstring of graphbench.ops) where it can be read off the source."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

from graphbench import ops

ROOT = Path(ops.__path__[0])
OPERATORS = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))


def implementations(operator: str, file: str) -> list[str]:
    """Public functions of an operator that are defined in one of its files too."""
    public = importlib.import_module(f"graphbench.ops.{operator}")
    module = importlib.import_module(f"graphbench.ops.{operator}.{file}")
    functions = dict(inspect.getmembers(module, inspect.isfunction))
    return [name for name in public.__all__ if name in functions and functions[name].__module__ == module.__name__]


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_folder_has_the_files_of_every_operator(operator: str) -> None:
    missing = {"__init__.py", "reference.py", "cpu.py", "README.md"} - {p.name for p in (ROOT / operator).iterdir()}
    assert not missing
    assert (ROOT.parents[1] / "tests" / "ops" / f"test_{operator}.py").exists()


@pytest.mark.parametrize("operator", OPERATORS)
def test_public_functions_let_the_caller_choose_the_implementation(operator: str) -> None:
    names = implementations(operator, "reference")
    assert names
    assert set(names) <= set(implementations(operator, "cpu"))
    public = importlib.import_module(f"graphbench.ops.{operator}")
    for name in names:
        backend = inspect.signature(getattr(public, name)).parameters["backend"]
        assert (backend.kind, backend.default) == (backend.KEYWORD_ONLY, "auto")
        assert inspect.getdoc(getattr(public, name))
