"""Where tests find real data and recorded numbers, and how they see one random stream."""

from __future__ import annotations

import gc
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests import second_device
from tests.paths import ROOT

__all__ = ["second_device"]  # registers its device before anything is differentiated


gc.disable()  # until all tests are collected: their modules stay


def _folder(variable: str, default: str) -> Path:
    named = os.environ.get(variable, "").split(":")[0]
    return Path(named) if named else ROOT.parent / "shared" / default


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves ``exhaustive`` tests out, long ones too, unless the expression of ``-m`` names them."""
    if "exhaustive" not in config.getoption("markexpr"):
        left_out = [item for item in items if item.get_closest_marker("exhaustive")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("exhaustive")]


def pytest_collection_finish() -> None:
    """What has been imported and collected stays to the end: no garbage collection looks at its millions again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def pytest_unconfigure() -> None:
    """Libraries report what is left when the interpreter ends."""
    gc.unfreeze()


if not torch.cuda.is_available():  # for every seed, the stack of the caller would be kept until there is a GPU
    for absent in (torch.cuda, torch.xpu, torch.mtia):
        absent.manual_seed_all = lambda seed: None


# A test that kills a process does not cut the power: what was written is read again, whether or not it is on the disk.
os.fsync = lambda file: None


@pytest.fixture(scope="module", autouse=True)
def _propagating_loggers() -> None:
    """In every phase of a test pytest adds handlers to each logger that does not propagate: to dozens of PyTorch's."""
    for logger in list(logging.root.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger):
            logger.propagate = True


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002  libraries under test still draw from the global generator


@pytest.fixture(autouse=True)
def _plugins_of_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHBENCH_ALLOW_PLUGINS", "1")  # they lie in temporary folders; test_security.py takes it away


@pytest.fixture(scope="session")
def data_root() -> Path:
    """Folder with the real raw data sets; tests that need it skip where it is absent."""
    folder = _folder("GRAPHBENCH_DATA", "data")
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder} (set GRAPHBENCH_DATA)")
    return folder


@pytest.fixture(scope="session")
def golden() -> Callable[[str], dict[str, Any]]:
    """``golden("graphgps/gatedgcn_relu")``: arrays as tensors by name, and the parsed ``config``."""
    folder = _folder("GRAPHBENCH_GOLDEN", "golden")

    def load(name: str) -> dict[str, Any]:
        path = folder / f"{name}.npz"
        if not path.is_file():
            pytest.skip(f"no recorded numbers at {path} (set GRAPHBENCH_GOLDEN)")
        with np.load(path) as file:
            arrays: dict[str, Any] = {key: torch.from_numpy(file[key]) for key in file.files if key != "config"}
            arrays["config"] = json.loads(str(file["config"]))
        return arrays

    return load
