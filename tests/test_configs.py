"""Every shipped YAML builds without data and takes one training step on a batch of its data set's shape."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from graphbench import build
from graphbench.config import load_config
from graphbench.experiment import describe
from tests.synthetic_batch import batch_like

ROOT = Path(__file__).resolve().parent.parent
CONFIGS = sorted(path for path in (ROOT / "configs").rglob("*.yaml") if "_base_" not in path.parts)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: str(path.relative_to(ROOT / "configs")))
def test_builds_and_takes_one_step(path: Path) -> None:
    config = load_config(path)
    line = describe(config)
    info = build.declared_info(config)
    assert line["params"] > 0
    assert line["metric"] == info.metric

    model = build.model(config, info)
    assert sum(p.numel() for p in model.parameters()) == line["params"]
    batch = batch_like(info, build.transforms(config))
    task = build.task(config, info)
    optimizer = build.optimizer(config, model)
    model.train()
    loss = task.loss(model(batch), batch.y)
    loss.backward()
    before = [p.detach().clone() for p in model.parameters()]
    optimizer.step()
    assert torch.isfinite(loss)
    assert any(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_there_are_configs() -> None:
    assert len(CONFIGS) >= 8
