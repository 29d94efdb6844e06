"""Tests mirror the package: a module's tests are found in the folder of its package."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from tests.paths import ROOT

PACKAGE, TESTS = ROOT / "graphbench", ROOT / "tests"
MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")
FOLDERS = sorted({path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")} - {Path()})
ABOUT_ALL_COMPONENTS = re.compile(r"registry\.(names|components)\(|NAMESPACES")
IMPORT = re.compile(r"^ *(?:from ([\w.]+) import (\([^)]*\)|.*)|import ([\w.]+))", re.MULTILINE)
"""An import, also one inside a function: a tenth of the time that parsing all files takes."""
NAME = re.compile(r"\b\w+\b")
OUTSIDE = ("study", "additions")
"""Folders of tests that mirror something else than the package."""

TESTED_THROUGH = {
    "benchmarks": "benchmarks/test_cli.py",
    "commands/check.py": "test_console.py",
    "commands/list.py": "test_console.py",
    "commands/train.py": "test_main.py",
    "blockwise/collected.py": "blockwise/test_forward.py",
    "blockwise/model.py": "blockwise/test_forward.py",
    "blockwise/neighborhood.py": "blockwise/test_forward.py",
    "blockwise/part.py": "blockwise/test_forward.py",
    "cores.py": "data/files/test_molecules.py",
    "config/components.py": "config/test_settings.py",
    "config/data_keys.py": "config/test_load.py",
    "config/layer_type.py": "config/test_load.py",
    "config/model_keys.py": "config/test_load.py",
    "config/run_keys.py": "config/test_load.py",
    "config/yaml_files.py": "config/test_load.py",
    "data/context.py": "data/test_builder.py",
    "data/large/context.py": "factory/test_samplers.py",
    "data/datasets/tu_files.py": "data/datasets/test_tu.py",
    "data/gather.py": "data/loading/test_loader.py",
    "data/graph_records.py": "data/datasets/test_custom.py",
    "data/loading/hidden_pairs.py": "data/loading/test_loader.py",
    "data/store_checks.py": "data/test_store.py",
    "data/stored_pairs.py": "data/test_store.py",
    "encoders/inputs.py": "encoders/test_features.py",
    "encoders/mlp.py": "encoders/test_positional.py",
    "factory/config_errors.py": "factory/test_samplers.py",
    "factory/encoders.py": "factory/test_what_layers_read.py",
    "factory/layers.py": "factory/test_layer_variants.py",
    "factory/large_loaders.py": "factory/test_samplers.py",
    "factory/loaders.py": "factory/test_samplers.py",
    "factory/outline.py": "test_configs.py",
    "factory/task.py": "factory/test_training.py",
    "heads/contract.py": "heads/test_heads.py",
    "heads/mlp.py": "heads/test_heads.py",
    "layers/linear.py": "layers/test_feed_forward.py",
    "layers/module_list.py": "layers/test_contract.py",
    "models/adjacency_rows.py": "models/test_adjacency_models.py",
    "models/contract.py": "models/test_model_contract.py",
    "nn": "nn/test_nn.py",
    "ops/backend.py": "ops/test_contract.py",
    "ops/bucket_pairs.py": "ops/test_softmax_attention.py",
    "ops/gpu_tables.py": "ops/test_launches_gpu.py",
    "ops/gpu_tiles.py": "ops/test_launches_gpu.py",
    "plots/points.py": "plots/test_cli.py",
    "predict": "predict/test_predict.py",
    "report": "report/test_cli.py",
    "runs/split_text.py": "runs/test_summary.py",
    "single_run.py": "test_together.py",
    "structures/first_order.py": "ops/test_pair_attention.py",
    "structures/adjacency.py": "ops/test_propagate.py",
    "structures/capacity.py": "data/loading/test_assembly.py",
    "structures/edge_set.py": "structures/test_pairs.py",
    "structures/layer_state.py": "structures/test_graph_batch.py",
    "structures/node_blocks.py": "blockwise/test_forward.py",
    "tables/best_points.py": "tables/test_cli.py",
    "tables/provenance.py": "tables/test_sweep_table.py",
    "tasks/contract.py": "tasks/test_task.py",
    "train/capture.py": "train/test_captured_training.py",
    "train/contract.py": "train/test_captured_training.py",
    "train/device_rates.py": "train/test_captured_step.py",
    "train/failures.py": "train/test_trainer.py",
    "train/inference.py": "train/test_pretrained.py",
    "train/run_log.py": "train/test_loggers.py",
    "train/schedule.py": "train/test_trainer.py",
    "train/signals.py": "train/test_checkpointer.py",
    "train/state.py": "train/test_checkpointer.py",
    "train/unreached.py": "test_plug_ins.py",
    "testing": "testing/test_layers.py",
    "transforms/algorithms/all_pairs.py": "transforms/test_shortest_paths.py",
    "transforms/context.py": "transforms/test_contract.py",
    "vocabulary.py": "structures/test_data_info.py",
}
"""Modules (or folders) without a test of their name, and the test file that goes through them."""


def _package(module: Path) -> str:
    """Empty for the modules at the top of the package."""
    return module.parts[0] if len(module.parts) > 1 else ""


@pytest.mark.parametrize("folder", [folder for folder in FOLDERS if folder.parts[0] not in OUTSIDE], ids=str)
def test_a_folder_of_tests_is_a_room(folder: Path) -> None:
    assert (PACKAGE / folder).is_dir() or (PACKAGE / folder.with_suffix(".py")).is_file()


def test_modules_are_tested_in_their_room() -> None:
    """By a file of its name, by one of its package's name, by one that imports it, or by the suite of its base class.

    Whole programs are tested at the top of ``tests``: that counts for the modules at the top of the package.
    """
    problems = {str(module): _problem(module) for module in MODULES}
    assert {module: problem for module, problem in problems.items() if problem} == {}


def _problem(module: Path) -> str | None:
    """What is wrong with the tests of a module; None: nothing."""
    named = [module.with_suffix(""), *module.parents[:-1]]
    if any((TESTS / name.parent / f"test_{name.name}.py").is_file() for name in named):
        return None
    package = _package(module)
    files = [path for path, parts in _places().items() if not package or parts[0] == package]
    dotted = ".".join(("graphbench", *module.with_suffix("").parts))
    if any(dotted in _imports()[path] for path in files):
        return None
    if package and re.search(r"^@(registry\.)?register\(", (PACKAGE / module).read_text(), re.MULTILINE):
        of_all = any(ABOUT_ALL_COMPONENTS.search(path.read_text()) for path in files)
        return None if of_all else f"no test of all of {package}"
    test = next((TESTED_THROUGH[name] for name in map(str, (module, *module.parents)) if name in TESTED_THROUGH), None)
    if test is None:
        return f"no file in tests/{package} is named after {dotted} or imports it, and TESTED_THROUGH names none"
    return None if dotted in _reached(TESTS / test) else f"tests/{test} does not reach {dotted}"


@functools.cache
def _reached(test: Path) -> set[str]:
    """All modules of the package that a test file imports, directly or through others."""
    files, seen = _files(), set[str]()
    queue = [*_imported_by(test)]
    while queue:
        name = queue.pop()
        if name in files and name not in seen:
            seen.add(name)
            queue += _imported_by(files[name])
    return seen


@functools.cache
def _files() -> dict[str, Path]:
    """Dotted names of all modules of the package and its tests, and their files."""
    found = {}
    for path in (*PACKAGE.rglob("*.py"), *TESTS.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@functools.cache
def _places() -> dict[Path, tuple[str, ...]]:
    """Test files, and the folders that lead to each."""
    return {path: path.relative_to(TESTS).parts for path in _imports()}


@functools.cache
def _imports() -> dict[Path, set[str]]:
    """Test files and what each imports."""
    return {path: _imported_by(path) for path in TESTS.rglob("*.py")}


@functools.cache
def _imported_by(file: Path) -> set[str]:
    """Modules that a file imports, or whose names it imports."""
    modules: set[str] = set()
    for module, names, whole in IMPORT.findall(file.read_text()):
        modules |= {whole} if whole else {module, *(f"{module}.{name}" for name in NAME.findall(names))}
    return modules
