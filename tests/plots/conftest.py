"""Finished runs that several figures are drawn from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plots.quickstart_runs import train


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plots")


@pytest.fixture(scope="session")
def gps(home: Path) -> Path:
    return train(
        home, "gps", "gt.layer_type", "CustomGatedGCN+Transformer", "optim.max_epoch", "3", "train.metrics_period", "1"
    )


@pytest.fixture(scope="session")
def sfi(home: Path) -> Path:
    """Friction strong enough for many zeros."""
    return train(
        home, "sfi", "gt.layer_type", "CustomGatedGCN+SFi", "gt.layers", "2", "gt.SFi.lam", "1000", "optim.base_lr",
        "0.01", "optim.max_epoch", "3", "train.metrics_period", "1",
    )  # fmt: skip
