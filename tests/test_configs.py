"""Every shipped YAML builds without data; those that differ take a training step on a batch of their data's shape."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
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


def with_new_words(paths: list[Path]) -> set[Path]:
    """Files that have a word no file before them has, e.g. a layer or the fragment of a data set."""
    kept, seen = set(), set()
    for path in paths:
        words = set(re.findall(r"[A-Za-z_][\w+./-]*", re.sub(r"(^| )#.*", "", path.read_text(), flags=re.MULTILINE)))
        if words - seen:
            kept.add(path)
            seen |= words
    return kept


STEPPED = with_new_words(CONFIGS)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT / "configs"))


def without_effect(path: Path, notices: Iterable[str]) -> list[str]:
    """Those about keys that the file itself sets."""
    return [notice for notice in notices if notice.startswith(f"{path}:") and "has no effect" in notice]


def test_no_key_of_a_file_is_without_effect() -> None:
    """Such a key is a slip, except in files that others begin with."""
    bases = " ".join(_base_of(path) for path in CONFIGS)
    own = [path for path in CONFIGS if path.name not in bases]
    assert not [notice for path in own for notice in without_effect(path, load_config(path).notices)]


@pytest.mark.parametrize("path", [path for path in CONFIGS if path not in STEPPED], ids=name_of)
def test_builds(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config, _ = one_layer(path)
    summary, info = describe(config), declared_info(config)
    assert summary.params > 0
    assert not without_effect(path, caplog.messages)
    assert summary.metric == info.metric


@pytest.mark.parametrize(
    "path",
    [path if path in STEPPED else pytest.param(path, marks=pytest.mark.exhaustive) for path in CONFIGS],
    ids=map(name_of, CONFIGS),
)
def test_builds_and_takes_one_step(path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config, one_graph = one_layer(path)
    summary = describe(config)
    assert not without_effect(path, caplog.messages)
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
