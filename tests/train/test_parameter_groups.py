"""Optimizer groups: weight decay by part of the model, filters with a rate of their own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphbench.contract import HasOptimizerGroup
from graphbench.registry import construct, lookup
from graphbench.train.parameter_groups import parameter_groups


class TwoBranches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.local, self.head = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2)), nn.Linear(2, 1)


def test_one_group_unless_parts_are_named() -> None:
    (group,) = parameter_groups(TwoBranches(), 0.1)
    assert (len(group["params"]), group["weight_decay"]) == (6, 0.1)


def test_parts_have_their_own_weight_decay_and_the_longest_name_counts() -> None:
    model = TwoBranches()
    model.head.bias.requires_grad_(False)
    groups = parameter_groups(model, 0.1, {"attention": 0.0, "local": 0.2, "local.0.bias": 0.3})
    decay = {id(parameter): group["weight_decay"] for group in groups for parameter in group["params"]}
    by_name = {name: decay.get(id(parameter)) for name, parameter in model.named_parameters()}
    assert by_name == {
        "attention.weight": 0.0,
        "attention.bias": 0.0,
        "local.0.weight": 0.2,
        "local.0.bias": 0.3,
        "head.weight": 0.1,
        "head.bias": None,
    }


def test_a_part_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="no trainable parameter in 'att'; parts of the model: attention, local, head"):
        parameter_groups(TwoBranches(), 0.1, {"att": 0.0})


class Filter(nn.Linear, HasOptimizerGroup):
    optimizer_group = "filter"


class WithFilters(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleDict({"map": nn.Linear(2, 2), "filter": Filter(2, 2)}) for _ in range(3))
        self.head = nn.Linear(2, 1)


@pytest.mark.parametrize("rate", [None, 0.01])
def test_filters_are_not_decayed_and_have_their_own_rate(rate: float | None) -> None:
    model = WithFilters()
    groups = parameter_groups(model, 0.1, {"layers.1": 0.3}, filter_lr=rate)
    settings = {
        id(parameter): {key: value for key, value in group.items() if key != "params"}
        for group in groups
        for parameter in group["params"]
    }
    filters = {"weight_decay": 0.0} | ({} if rate is None else {"lr": rate})
    for name, parameter in model.named_parameters():
        plain = {"weight_decay": 0.3 if name.startswith("layers.1.") else 0.1}
        assert settings[id(parameter)] == (filters if ".filter." in name else plain), name
    assert len(groups) == 3, "one group per setting, not per layer"
    start = model.layers[2]["filter"].weight.detach().clone()
    optimizer = construct(lookup("train/optimizers", "adamW"), {"params": groups, "lr": 0.5, "weight_decay": 0.1})
    sum(parameter.sum() for parameter in model.parameters()).backward()
    optimizer.step()
    step = start - model.layers[2]["filter"].weight
    torch.testing.assert_close(step, torch.full_like(step, 0.5 if rate is None else rate))  # Adam's first step is lr


def test_a_rate_for_filters_needs_filters() -> None:
    with pytest.raises(ValueError, match="filter_lr: this model has no implicit filters; GECO and Hyena have"):
        parameter_groups(TwoBranches(), 0.1, filter_lr=0.1)
