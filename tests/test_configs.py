"""Every shipped YAML builds without data and takes one training step on a batch of its data set's shape."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
import torch

from graphbench import factory
from graphbench.config import load_config
from graphbench.preflight import describe
from tests.paths import ROOT
from tests.synthetic_batch import SIZES, batch_like

CONFIGS = sorted(path for path in (ROOT / "configs").rglob("*.yaml") if not {"_base_", "sweeps"} & {*path.parts})
FRAGMENTS = sorted((ROOT / "configs/_base_").rglob("*.yaml"))

ONE_LAYER = ["gt.layers", "1", "gnn.layers_mp", "1", "graphormer.num_layers", "1"]
"""Depth adds nothing but time here; tests/test_published_counts.py builds the whole models."""


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: str(path.relative_to(ROOT / "configs")))
def test_builds_and_takes_one_step(path: Path, tmp_path: Path) -> None:
    config = load_config(path, ONE_LAYER)
    line = describe(config)
    info = dataclasses.replace(factory.declared_info(config), max_nodes=max(SIZES))
    assert line["params"] > 0
    assert line["metric"] == info.metric

    model = factory.build_model(config, info)
    assert sum(p.numel() for p in model.parameters()) == line["params"]
    batch = batch_like(info, factory.build_transforms(config), tmp_path)
    task = factory.build_task(config, info)
    optimizer = factory.build_optimizer(config, model)
    model.train()
    loss = task.loss(model(batch), batch.y)
    loss.backward()
    before = [p.detach().clone() for p in model.parameters()]
    optimizer.step()
    assert torch.isfinite(loss)
    assert any(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_there_are_configs() -> None:
    assert len(CONFIGS) >= 90


def test_run_directories_do_not_collide() -> None:
    """A run's directory is named after the stem of its file."""
    stems = [path.stem for path in CONFIGS]
    assert len(set(stems)) == len(stems)


def test_every_fragment_is_used() -> None:
    used = {
        (path.parent / name).resolve()
        for path in [*CONFIGS, *FRAGMENTS]
        for name in re.findall(r"[\w./-]*\.yaml", _base_of(path))
    }
    assert not {path.resolve() for path in FRAGMENTS} - used


def test_the_overview_lists_every_file() -> None:
    listed = re.findall(r"^\| \[[\w.-]+\]\(([\w./-]+)\)", (ROOT / "configs/README.md").read_text(), re.MULTILINE)
    configs = [name for name in listed if not name.startswith("sweeps/")]  # tests/test_sweeps.py looks after those
    assert sorted(configs) == sorted(str(path.relative_to(ROOT / "configs")) for path in CONFIGS)


def _base_of(path: Path) -> str:
    """The lines of ``_base_``, in any of its forms."""
    found = re.search(r"^_base_:.*\n(?:  - .*\n)*", path.read_text(), re.MULTILINE)
    return found.group() if found else ""
