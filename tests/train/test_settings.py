"""Settings of the trainer: what they refuse, and when training ends."""

from __future__ import annotations

import pytest

from tests.train.tiny_run import tiny_settings


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_epoch", 0), ("eval_period", 0), ("batch_accumulation", -1), ("patience", -1), ("clip_grad_norm_value", 0.0)],
)
def test_settings_out_of_range(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} must be .*received {value}"):
        tiny_settings(**{name: value})


@pytest.mark.parametrize(
    ("epochs", "best_epoch", "patience", "reason"),
    [
        (5, 2, 0, None),
        (6, 5, 0, "max_epoch"),
        (5, 2, 2, "early stopping"),
        (4, 2, 2, None),
        (2, None, 2, "early stopping"),
        (1, None, 2, None),
    ],
)
def test_reasons_to_end(epochs: int, best_epoch: int | None, patience: int, reason: str | None) -> None:
    assert tiny_settings(max_epoch=6, patience=patience).reason_to_end(epochs, best_epoch) == reason


@pytest.mark.parametrize("period", [1, 2, 3, 7, 50])
def test_evaluations_are_counted(period: int) -> None:
    settings = tiny_settings(max_epoch=30, eval_period=period)
    for epochs in range(30):
        assert settings.evaluations(epochs) == sum(map(settings.evaluates, range(epochs)))


@pytest.mark.parametrize(("epochs", "best_epoch", "reason"), [(29, 9, None), (30, 9, "early stopping"), (29, 0, None)])
def test_patience_counts_evaluations(epochs: int, best_epoch: int, reason: str | None) -> None:
    settings = tiny_settings(max_epoch=100, eval_period=10, patience=2 if best_epoch else 3)
    assert settings.reason_to_end(epochs, best_epoch) == reason
