"""The rules of docs/ARCHITECTURE.md, enforced on the source itself."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.paths import ROOT

PACKAGE = ROOT / "graphbench"
FILES = sorted(PACKAGE.rglob("*.py"))

# Package -> packages it may import. Everyone may import itself, errors and registry. What is not listed is forbidden.
MAY_IMPORT = {
    "errors": set(),
    "atomic": set(),
    "cores": set(),
    "durations": set(),
    "frozen_imports": set(),
    "registry": set(),
    "plug_ins": set(),
    "user_code": set(),
    "contract": set(),
    "vocabulary": set(),
    "shipped": set(),
    "structures": {"vocabulary"},
    "ops": {"structures"},
    "layers": {"structures", "ops"},
    "encoders": {"structures", "ops", "layers"},
    "heads": {"structures", "ops", "layers"},
    "nn": {"structures", "layers", "encoders", "data", "transforms"},
    "blockwise": {"structures", "ops", "layers", "encoders", "data"},
    "models": {"structures", "ops", "layers", "encoders", "heads", "blockwise"},
    "tasks": {"structures", "ops"},
    "data": {"structures", "ops"},
    "transforms": {"structures", "data"},
    "runs": {"config"},
    "train": {"structures", "ops", "tasks", "runs", "blockwise"},
    "config": {"structures"},
    "exit_codes": set(),
    "command_line": set(),
    "factory": {
        *("structures", "config", "data", "transforms", "encoders", "layers", "heads", "models", "blockwise"),
        *("tasks", "train"),
    },
    "preflight": {"config", "factory", "runs", "train"},
    "run_inputs": {"config", "data", "factory", "preflight", "runs", "train"},
    "single_run": {"structures", "config", "factory", "data", "tasks", "train", "runs", "preflight", "run_inputs"},
    "experiment": {"config", "factory", "data", "train", "runs", "preflight", "run_inputs", "single_run"},
    "predict": {"structures", "ops", "config", "data", "transforms", "factory", "run_inputs", "runs", "train"},
    "__main__": {"console"},
    "console": set(),
    "testing": {"structures", "layers", "encoders", "heads", "models", "tasks", "data", "transforms"},
    "commands": {
        *("structures", "config", "data", "factory", "experiment", "preflight", "runs", "sweeps", "tables", "testing"),
        *("heads", "layers", "models", "transforms"),
    },
    "published": set(),
    "sweeps": {"config", "published", "data", "experiment", "factory", "preflight", "run_inputs", "train", "runs"},
    "tables": {"config", "published", "runs", "factory", "sweeps"},
    "report": {"runs", "published", "tables", "sweeps", "plots"},
    "plots": {
        *("preflight", "run_inputs"),
        *("config", "factory", "structures", "ops", "layers", "models", "data", "train", "runs", "experiment"),
        "sweeps",
    },
    "benchmarks": {
        *("structures", "ops", "layers", "encoders", "heads", "models", "transforms", "data", "tasks", "train"),
        *("config", "factory", "experiment", "runs", "sweeps", "tables", "blockwise", "plots"),
    },
}


def _package(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0].removesuffix(".py")


@cache
def _imports(path: Path) -> list[tuple[str, int]]:
    """Modules imported anywhere in a file, except for type checking only."""
    tree = ast.parse(path.read_text())
    typing_only = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for child in ast.walk(node)
    }
    found = []
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            module = node.module or ""
            found += [
                (f"{module}.{alias.name}" if module == "graphbench" else module, node.lineno) for alias in node.names
            ]
    return found


@pytest.mark.parametrize("package", sorted({_package(path) for path in FILES} - {"__init__"}))
def test_imports_point_one_way(package: str) -> None:
    everyone = {
        *(
            "errors",
            "atomic",
            "exit_codes",
            "command_line",
            "registry",
            "plug_ins",
            "user_code",
            "contract",
            "vocabulary",
            "shipped",
            "cores",
            "durations",
        ),
        *("frozen_imports", "__version__"),
    }
    allowed = MAY_IMPORT[package] | {package} | (set() if package in ("structures", "ops", "errors") else everyone)
    for path in FILES:
        for module, line in _imports(path) if _package(path) == package else ():
            if module.split(".")[0] == "graphbench":
                target = [*module.split("."), ""][1]
                assert target in allowed, f"{path}:{line}: {package} must not import {module}"
            if module.split(".")[0] == "yacs":
                assert package in ("config", "factory"), f"{path}:{line}: only config and factory know yacs"


@pytest.mark.parametrize("package", ["structures", "ops"])
def test_structures_and_ops_import_torch_and_nothing_else(package: str) -> None:
    for path in (PACKAGE / package).rglob("*.py"):
        allowed = set(sys.stdlib_module_names) | {"torch", "numpy", "graphbench"}
        if path.name.startswith("gpu"):  # imported where a tensor lies on a GPU, nowhere else
            allowed.add("triton")
        for module, line in _imports(path):
            assert module.split(".")[0] in allowed, f"{path}:{line}: imports {module}"


def test_components_are_looked_up_by_the_constant_that_knows_their_type() -> None:
    untyped = re.compile(r"\b(?:lookup|components)\(\s*f?[\"']")
    assert not [path for path in FILES if untyped.search(path.read_text())]


def test_names_say_what_is_inside() -> None:
    vague = {"utils.py", "helpers.py", "misc.py", "common.py", "util.py", "helper.py"}
    assert not [path for path in FILES if path.name in vague]


@pytest.mark.parametrize("package", ["layers", "models", "encoders", "heads"])
def test_no_layer_pads_or_waits_for_the_device(package: str) -> None:
    forbidden = re.compile(r"to_dense_batch|\.item\(\)|\.tolist\(\)|\.cpu\(\)|\.nonzero\(|torch\.where\([^,]+\)$")
    for path in (PACKAGE / package).rglob("*.py"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            assert not forbidden.search(line), f"{path}:{number}: {line.strip()}"


def test_components_share_no_name_within_a_section() -> None:
    """But a convolution may bear the name of the layer around it when it adds no key to the layer's."""
    from graphbench import registry
    from graphbench.config.components import component_keys
    from graphbench.config.schema import GROUPS, namespaces_of_group

    for group in GROUPS:
        namespaces = namespaces_of_group(group)
        found: dict[str, object] = {}
        for namespace in namespaces:
            for name in registry.names(namespace):
                component = registry.lookup(namespace, name)
                first = found.setdefault(name, component)
                inner = namespace == "models" or (
                    namespace == "layers/local" and name in registry.names("layers/blocks")
                )
                assert first is component or (
                    inner and component_keys(component).keys() <= component_keys(first).keys()
                ), f"{group}.{name} is ambiguous: {namespaces}"


def test_every_parameter_is_a_key_or_filled_from_the_context() -> None:
    from graphbench import registry
    from graphbench.config.components import settable_keys
    from graphbench.registry import UNSET

    for namespace in registry.NAMESPACES:
        for component in registry.components(namespace):
            for parameter in registry.parameters(component).values():
                settable = parameter.name in settable_keys(component)
                assert settable or parameter.from_context or parameter.default is not UNSET, (
                    f"{namespace}/{component.registered_name}: nobody can supply '{parameter.name}'"
                )
