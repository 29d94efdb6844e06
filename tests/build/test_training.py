"""Optimisers from configurations."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphbench import build
from graphbench.config import load_config
from graphbench.errors import UserError

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


def test_the_attention_branch_has_its_own_weight_decay() -> None:
    config = load_config(CONFIGS / "nodes/sgformer-cora.yaml")
    model = build.model(config, build.declared_info(config))
    groups = build.optimizer(config, model).param_groups
    decay = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
    assert set(decay) == {id(p) for p in model.parameters()}
    attention = {id(p) for p in model.attention_branch.parameters()}
    assert {decay[each] for each in attention} == {0.001}
    assert {value for each, value in decay.items() if each not in attention} == {5e-4}


def test_a_model_without_that_branch_refuses_the_key() -> None:
    config = load_config(CONFIGS / "quickstart.yaml", ["optim.attention_weight_decay", "0.1"])
    model = build.model(config, build.declared_info(config))
    with pytest.raises(UserError, match=r"command line: optim.attention_weight_decay: .*attention_branch"):
        build.optimizer(config, model)
