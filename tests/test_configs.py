"""Every shipped YAML builds without data and takes one training step on a batch of its data set's shape."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
import torch

from graphbench.config import Config, load_config
from graphbench.factory.data import declared_info
from graphbench.factory.model import build_model
from graphbench.factory.task import build_task
from graphbench.factory.training import build_optimizer
from graphbench.factory.transforms import build_transforms
from graphbench.preflight import describe
from graphbench.structures import Ragged
from tests.paths import ROOT
from tests.synthetic_batch import SIZES, batch_like

CONFIGS = sorted(path for path in (ROOT / "configs").rglob("*.yaml") if not {"_base_", "sweeps"} & {*path.parts})
FRAGMENTS = sorted((ROOT / "configs/_base_").rglob("*.yaml"))

ONE_LAYER = ["gt.layers", "1", "gnn.layers_mp", "1", "graphormer.num_layers", "1"]
"""Depth adds nothing but time here; tests/test_published_counts.py builds the whole models."""


def one_layer(path: Path) -> tuple[Config, bool]:
    """A configuration with one layer, and whether its model has weights per node, so that it takes one graph only."""
    config = load_config(path, ONE_LAYER)
    model_type = config.tree.model.type
    if not config.component_args("gt", model_type).get("nodes", 0):
        return config, False
    return load_config(path, [*ONE_LAYER, f"gt.{model_type}.nodes", str(sum(SIZES))]), True


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: str(path.relative_to(ROOT / "configs")))
def test_builds_and_takes_one_step(path: Path, tmp_path: Path) -> None:
    config, one_graph = one_layer(path)
    summary = describe(config)
    info = dataclasses.replace(declared_info(config), max_nodes=max(SIZES))
    assert summary.params > 0
    assert summary.metric == info.metric

    model = build_model(config, info)
    assert sum(p.numel() for p in model.parameters()) == summary.params
    batch = batch_like(info, build_transforms(config), tmp_path)
    if one_graph:
        batch = batch.replace(ragged=Ragged.from_sizes([batch.num_nodes]))
    task = build_task(config, info)
    optimizer = build_optimizer(config, model)
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


def _base_of(path: Path) -> str:
    """The lines of ``_base_``, in any of its forms."""
    found = re.search(r"^_base_:.*\n(?:  - .*\n)*", path.read_text(), re.MULTILINE)
    return found.group() if found else ""
