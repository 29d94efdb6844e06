"""What other frameworks call our keys."""

from __future__ import annotations

import pytest

from graphbench.config import load_config
from graphbench.config.foreign_names import FOREIGN_NAMES, our_key
from graphbench.config.schema import SCHEMA
from graphbench.errors import UserError


def test_they_stand_for_keys_that_have_an_effect() -> None:
    named = {key for keys in FOREIGN_NAMES.values() for key in keys}
    assert [key for key in sorted(named) if key not in SCHEMA or SCHEMA[key].inert] == []


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("optim.lr", "optim.base_lr"),
        ("learning_rate", "optim.base_lr"),
        ("train.epochs", "optim.max_epoch"),
        ("optim.batch_size", "train.batch_size"),
        ("gt.num_layers", "gt.layers"),
        ("gnn.num_layers", "gnn.layers_mp"),
        ("model.hidden_dim", "gnn.dim_inner"),
        ("gt.hidden_dim", "gt.dim_hidden"),
        ("train.patience", "train.early_stop_patience"),
        ("optim.patience", "optim.schedule_patience"),
        ("train.device", "accelerator"),
        ("train.accelerator", "accelerator"),
    ],
)
def test_an_unknown_key_is_answered_by_what_others_call_so(name: str, key: str) -> None:
    with pytest.raises(UserError, match=rf"unknown configuration key '{name}'\. Did you mean '{key}'\?"):
        load_config("quickstart", [name, "3"])


def test_nobody_calls_a_key_so() -> None:
    assert our_key("gt.layrs") is None
