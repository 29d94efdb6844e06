"""What a component without a line in our sources can rely on, from configuration to training step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from torch import Tensor

from graphbench import registry
from graphbench.config import Config, load_config
from graphbench.errors import ContractError, UserError
from graphbench.factory.data import declared_info
from graphbench.factory.model import build_model
from graphbench.factory.transforms import build_transforms
from graphbench.models.contract import Model
from graphbench.preflight import describe
from tests.paths import ROOT
from tests.synthetic_batch import batch_like

LOCAL = """
from graphbench.layers.contract import LocalLayer
from graphbench.registry import register


@register("Bare")
class Bare(LocalLayer):
    def __init__(self):
        super().__init__()

    def forward(self, h, e, batch):
        return {returned}
"""


def predict(folder: Path, returned: str, overrides: str = "") -> tuple[Model, Tensor]:
    """A model around a local layer that returns this, and its predictions."""
    folder.mkdir(exist_ok=True)
    (folder / "plugin.py").write_text(LOCAL.format(returned=returned))
    yaml = folder / "c.yaml"
    yaml.write_text(
        f"_base_: {ROOT}/configs/quickstart.yaml\nplugins: [plugin.py]\ngt: {{layer_type: Bare+SGFormer}}\n"
    )
    try:
        config = load_config(yaml, overrides.split())
        info = declared_info(config)
        assert info is not None
        model = build_model(config, info)
        return model, model(batch_like(info, build_transforms(config), folder / "cache"))
    finally:
        registry.forget("layers/local", "Bare")


def test_a_local_layer_of_one_method_trains(tmp_path: Path) -> None:
    model, predicted = predict(tmp_path, "2 * h, e")
    predicted.sum().backward()
    assert all(parameter.grad is not None for parameter in model.get_submodule("layers.0").parameters())


def test_a_local_layer_that_returns_no_pair_says_so(tmp_path: Path) -> None:
    with pytest.raises(
        ContractError, match=r"plugin\.py:11: Bare\.forward must return \(node states .*; received float32"
    ):
        predict(tmp_path, "h")


def test_every_model_checks_what_a_layer_returns(tmp_path: Path) -> None:
    for model in ("GPSModel", "TwoBranch", "JKNet gnn.layer_type Bare"):
        with pytest.raises(ContractError, match=r"Bare\.forward must return \(node states .*; received float32"):
            predict(
                tmp_path / model, f"h  # in {model}", f"model.type {model}"
            )  # a copy of a plug-in is not read again


ENCODER = """
from torch import nn

from graphbench.encoders.contract import {base}
from graphbench.registry import register


@register("Ones")
class Ones({base}):
    level = "{level}"

    def __init__(self, dim_pe: int = 2, times: int = 3):
        super().__init__()
        self.register_buffer("row", nn.functional.pad(nn.Parameter().new_ones(times)[:1], (0, dim_pe - 1)))

    def forward(self, *inputs):
        return self.row.expand(len(inputs[-1].x), -1)
"""


@pytest.fixture
def encoders(tmp_path: Path) -> Iterator[Callable[[str, str], Config]]:
    """``encoders(base, level)``: a configuration with a plug-in encoder of this kind."""

    def configured(base: str, level: str) -> Config:
        (tmp_path / "plugin.py").write_text(ENCODER.format(base=base, level=level))
        key = f"dataset.{level}_encoder_name"
        features = load_config(ROOT / "configs/quickstart.yaml").value(key).split("+")[0]
        overrides = ["plugins", f"[{tmp_path}/plugin.py]", key, f"{features}+Ones", "posenc_Ones.enable", "True"]
        return load_config(ROOT / "configs/quickstart.yaml", overrides)

    yield configured
    registry.forget("encoders/positional", "Ones")


def test_an_argument_of_an_encoder_may_be_called_times(
    encoders: Callable[[str, str], Config],
) -> None:
    assert describe(encoders("ColumnEncoder", "node")).params > 0


@pytest.mark.parametrize(
    ("base", "level", "allowed"),
    [
        ("PositionalEncoder", "node", "encoders of nodes derived from ColumnEncoder or BatchEncoder"),
        ("BatchEncoder", "edge", "encoders of edges derived from ColumnEncoder"),
    ],
)
def test_an_encoder_of_another_kind_is_not_left_out(
    base: str, level: str, allowed: str, encoders: Callable[[str, str], Config]
) -> None:
    with pytest.raises(UserError, match=rf"dataset\.{level}_encoder_name takes {allowed}; Ones is none\."):
        describe(encoders(base, level))


@pytest.mark.parametrize("switch", ["true", "false"])
def test_keys_of_bigbird_reach_bigbird_alone(switch: str) -> None:
    override = ["gt.bigbird.use_bias", switch]
    assert describe(load_config(ROOT / "configs/gnnbench/san-cluster.yaml", override)).params == 522_662
    of_bigbird = [*override, "gt.layer_type", "CustomGatedGCN+BigBird"]
    dim, layers = 32, 2
    plain = describe(load_config(ROOT / "configs/quickstart.yaml", [*of_bigbird[2:]])).params
    biases = 3 * dim * layers if switch == "true" else 0
    assert describe(load_config(ROOT / "configs/quickstart.yaml", of_bigbird)).params == plain + biases
