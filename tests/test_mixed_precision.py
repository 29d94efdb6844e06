"""Training in bfloat16 and float16 beside float32 weights: resumed, repeated and in turns with the same numbers."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from graphbench.config import load_config
from graphbench.experiment import run
from graphbench.factory.training import build_settings
from graphbench.train.checkpointer import read_checkpoint
from graphbench.train.precision import Precision
from graphbench.train.reporter import Reporter
from graphbench.train.settings import TrainerSettings
from tests.own_graphs import write_rings
from tests.test_together import assert_same
from tests.train.test_checkpointer import Bomb, Killed, kill

LARGEST = 2.0**20
"""Scale of the first losses, with which no gradient fits into float16: it is halved until they do."""


def scale(folder: Path, seed: int = 0) -> dict[str, Any]:
    return read_checkpoint(folder / f"rings/{seed}/ckpt/last.ckpt")["precision"]


@pytest.mark.parametrize("precision", [pytest.param("bf16-mixed", marks=pytest.mark.slow), "16-mixed"])
def test_runs_do_not_depend_on_what_ran_before_or_beside_them(
    precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With clipping, dropout and groups of batches; killed between two checkpoints of one epoch."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("graphbench.train.accelerator.Precision", _scaled_too_much)
    options = (
        f"precision {precision} gt.dropout 0.4 gnn.dropout 0.4 optim.max_epoch 4 train.batch_size 2 "
        "optim.clip_grad_norm true optim.clip_grad_norm_value 0.1 optim.batch_accumulation 2 optim.base_lr 0.05"
    )
    path = write_rings(tmp_path)
    every_step = _checkpoint_after_every_step

    def train(out: str, *, reporters: tuple[Reporter, ...] = (), **how: Any) -> None:
        run(load_config(path, [*options.split(), "out_dir", out]), reporters=reporters, **how)

    train("first", only=[0], repeat=2)
    train("second", only=[1], repeat=2)
    train("turns", repeat=2)
    train("together", repeat=2, together=True)
    with monkeypatch.context() as patched:
        patched.setattr("graphbench.single_run.build_settings", every_step)
        with pytest.raises(Killed):
            train("killed", reporters=(Bomb(2, 3, kill),))
    train("killed")
    first, second, turns, together, killed = map(tmp_path.joinpath, ("first", "second", "turns", "together", "killed"))
    assert_same(first, killed, [0])
    for out in (turns, together):
        assert_same(first, out, [0])
        assert_same(second, out, [1])
    if precision == "16-mixed":
        assert scale(first)["scale"] < LARGEST, "the first gradients were not finite"
        assert 0 < scale(first)["_growth_tracker"] < 8  # updates since
    else:
        assert scale(first) == {}


def _scaled_too_much(name: str, device: torch.device) -> Precision:
    precision = Precision(name, device)
    precision.load_state_dict(precision.state_dict() | {"scale": LARGEST})
    return precision


def _checkpoint_after_every_step(*arguments: Any) -> TrainerSettings:
    return dataclasses.replace(build_settings(*arguments), ckpt_seconds=0.0)
