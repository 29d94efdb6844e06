"""Rates of every epoch against GraphGPS's schedulers (recorded) and PyTorch's."""

from __future__ import annotations

import pytest
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, MultiStepLR

from graphbench.registry import construct, lookup, names

GOLDEN = (
    [f"cosine_with_warmup.{case}" for case in ("w5_n30", "w0_n12", "w50_n60")]
    + [f"linear_with_warmup.{case}" for case in ("w5_n30", "w0_n12")]
    + [f"polynomial_with_warmup.{case}" for case in ("w5_n30", "w3_n20")]
    + [f"reduce_on_plateau.{case}" for case in ("noisy_p3", "flat_p4", "noisy_p10")]
)


def optimizer(lr: float = 0.1, groups: int = 1) -> torch.optim.Optimizer:
    params = [{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": lr * (1 + g)} for g in range(groups)]
    return construct(lookup("train/optimizers", "sgd"), {"params": params, "lr": lr, "weight_decay": 0.0})


def make_schedule(name: str, opt: torch.optim.Optimizer, **context):
    defaults = {
        "max_epoch": 20,
        "num_warmup_epochs": 5,
        "steps": [3, 7],
        "lr_decay": 0.1,
        "reduce_factor": 0.5,
        "schedule_patience": 2,
        "min_lr": 0.0,
    }
    return construct(lookup("train/schedules", name), {**defaults, **context, "optimizer": opt})


def rates(schedule, losses: list) -> list[float]:
    seen = []
    for loss in losses:
        seen.append(schedule.lr)
        schedule.step(loss)
    return seen


def test_a_plateau_ends_the_training_with_the_reduction_below_its_limit() -> None:
    def epochs(**context) -> int:
        """Epochs that are trained, as benchmarking-gnns counts them: reduce, compare, stop."""
        schedule = make_schedule("reduce_on_plateau", optimizer(0.004), min_lr=0.001, schedule_patience=1, **context)
        for epoch in range(20):
            schedule.step(1.0)
            if schedule.reason_to_end:
                return epoch + 1
        return 20

    assert epochs() == 20  # 0.004, 0.002 and 0.001 for ever
    assert epochs(stop=True) == 7  # two epochs at each of them but the first, which is the lowest loss as well


@pytest.mark.parametrize("case", GOLDEN)
def test_rates_are_those_of_graphgps(golden, case: str) -> None:
    recorded = golden("graphgps/schedulers")
    facts, expected = recorded["config"]["cases"][case], recorded[f"out/{case}"]
    losses = recorded.get(f"in/loss.{case}")
    schedule = make_schedule(
        case.split(".")[0],
        optimizer(facts["lr"]),
        max_epoch=facts.get("n"),
        num_warmup_epochs=facts.get("warm"),
        reduce_factor=facts.get("factor"),
        schedule_patience=facts.get("patience"),
        min_lr=facts.get("min_lr"),
    )
    losses = [None] * len(expected) if losses is None else losses.tolist()
    assert rates(schedule, losses) == pytest.approx(expected.tolist(), rel=1e-12, abs=1e-18)


@pytest.mark.parametrize(
    ("name", "make_reference"),
    [
        ("step", lambda opt: MultiStepLR(opt, [3, 7], 0.1)),
        ("steps", lambda opt: MultiStepLR(opt, [3, 7], 0.1)),
        ("cos", lambda opt: CosineAnnealingLR(opt, 20)),
    ],
)
def test_rates_are_those_of_pytorch(name: str, make_reference) -> None:
    expected, opt = [], optimizer()
    reference = make_reference(opt)
    for _ in range(20):
        expected.append(opt.param_groups[0]["lr"])
        opt.step()
        reference.step()
    assert rates(make_schedule(name, optimizer()), [None] * 20) == pytest.approx(expected, rel=1e-9)


def test_none_never_changes() -> None:
    assert rates(make_schedule("none", optimizer()), [None] * 5) == [0.1] * 5


@pytest.mark.parametrize("name", names("train/schedules"))
def test_a_state_continues_the_rates(name: str) -> None:
    losses = [1.0, 0.9, 0.95, 0.97, 0.99, 0.98, 0.97, 0.96, 0.95, 0.94]
    whole = rates(make_schedule(name, optimizer(groups=2)), losses)
    opt = optimizer(groups=2)
    first = make_schedule(name, opt)
    begin = rates(first, losses[:4])
    later = optimizer(groups=2)
    rest = make_schedule(name, later)
    later.load_state_dict(opt.state_dict())
    rest.load_state_dict(first.state_dict())
    assert begin + rates(rest, losses[4:]) == whole


@pytest.mark.parametrize("name", [name for name in names("train/schedules") if "polynomial" not in name])
def test_groups_keep_their_proportion(name: str) -> None:
    opt = optimizer(groups=2)
    schedule = make_schedule(name, opt)
    for _ in range(8):
        schedule.step(1.0)
        assert opt.param_groups[1]["lr"] == pytest.approx(2 * opt.param_groups[0]["lr"])


def test_a_fraction_of_an_epoch_lies_between() -> None:
    opt = optimizer()
    schedule = make_schedule("linear_with_warmup", opt)
    schedule.set(2.5)
    assert opt.param_groups[0]["lr"] == pytest.approx(0.05)


def test_a_base_rate_below_the_final_one_is_refused() -> None:
    with pytest.raises(ValueError, match="lr_end must be below the base rate 1e-09, received 1e-07"):
        make_schedule("polynomial_with_warmup", optimizer(1e-9))
