"""Optimisers from configurations."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from graphbench.config import load_config
from graphbench.errors import UserError
from graphbench.factory.data import declared_info
from graphbench.factory.model import build_model
from graphbench.factory.parts import build_parts
from graphbench.factory.training import build_optimizer, build_schedule
from tests.own_graphs import write_rings
from tests.paths import ROOT

CONFIGS = ROOT / "configs"
FORMATS = {"bf16-true": torch.bfloat16, "64-true": torch.float64}


def test_the_attention_branch_has_its_own_weight_decay() -> None:
    config = load_config(CONFIGS / "nodes/sgformer-cora.yaml")
    model = build_model(config, declared_info(config))
    groups = build_optimizer(config, model).param_groups
    decay = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
    assert set(decay) == {id(p) for p in model.parameters()}
    attention = {id(p) for p in model.attention_branch.parameters()}
    assert {decay[each] for each in attention} == {0.001}
    assert {value for each, value in decay.items() if each not in attention} == {5e-4}


def test_a_model_without_that_branch_refuses_the_key() -> None:
    config = load_config(CONFIGS / "quickstart.yaml", ["optim.attention_weight_decay", "0.1"])
    model = build_model(config, declared_info(config))
    with pytest.raises(UserError, match=r"command line: optim.attention_weight_decay: .*attention_branch"):
        build_optimizer(config, model)


@pytest.mark.parametrize("name", ["GECO", "Hyena"])
def test_filters_have_their_own_rate_and_no_weight_decay(name: str) -> None:
    config = load_config(CONFIGS / "nodes/geco-cora.yaml", ["optim.filter_lr", "0.001", "gt.layer_type", name])
    model = build_model(config, declared_info(config))
    optimizer = build_optimizer(config, model)
    schedule = build_schedule(config, optimizer)
    found = {id(p): (group["lr"], group["weight_decay"]) for group in optimizer.param_groups for p in group["params"]}
    own = (config.tree.optim.base_lr, config.tree.optim.weight_decay)
    names = {parameter: ".filter." in parameter for parameter, _ in model.named_parameters()}
    assert sum(names.values()) == 8
    for parameter, value in model.named_parameters():
        assert found[id(value)] == ((0.001, 0.0) if names[parameter] else own), parameter
    assert schedule.lr == own[0], "what is logged is the rate of the rest"


def test_a_model_without_filters_refuses_their_rate() -> None:
    config = load_config(CONFIGS / "quickstart.yaml", ["optim.filter_lr", "0.001"])
    model = build_model(config, declared_info(config))
    with pytest.raises(UserError, match=r"command line: optim.filter_lr: .*no implicit filters"):
        build_optimizer(config, model)


def test_a_rate_that_follows_the_loss_changes_after_epochs_only() -> None:
    chosen = ["optim.scheduler", "reduce_on_plateau", "optim.scheduler_step", "iteration"]
    config = load_config(CONFIGS / "quickstart.yaml", chosen)
    optimizer = build_optimizer(config, build_model(config, declared_info(config)))
    with pytest.raises(UserError, match=r"reduce_on_plateau changes with the validation loss.*scheduler_step"):
        build_schedule(config, optimizer)


@pytest.mark.parametrize("precision", ["bf16-true", "64-true"])
def test_states_that_begin_with_the_optimiser_are_of_the_model_s_type(
    precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state that is loaded is of that type, too: the resumed run would be another one."""
    monkeypatch.chdir(tmp_path)
    write_rings(tmp_path)
    changes = {"optim.optimizer": "adagrad", "precision": precision, "accelerator": "cpu"}
    parts = build_parts(load_config(tmp_path / "rings.yaml", changes))
    states = parts.optimizer.state
    assert states
    for parameter, state in states.items():
        assert (state["sum"].dtype, state["sum"].device) == (parameter.dtype, parameter.device)
    assert {parameter.dtype for parameter in states} == {FORMATS[precision]}
