"""What a component without a line in our sources can rely on, from configuration to training step."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import Tensor

from graphbench import registry
from graphbench.config import load_config
from graphbench.errors import ContractError
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


@pytest.mark.parametrize("switch", ["true", "false"])
def test_keys_of_bigbird_reach_bigbird_alone(switch: str) -> None:
    override = ["gt.bigbird.use_bias", switch]
    assert describe(load_config(ROOT / "configs/gnnbench/san-cluster.yaml", override)).params == 522_662
    of_bigbird = [*override, "gt.layer_type", "CustomGatedGCN+BigBird"]
    dim, layers = 32, 2
    plain = describe(load_config(ROOT / "configs/quickstart.yaml", [*of_bigbird[2:]])).params
    biases = 3 * dim * layers if switch == "true" else 0
    assert describe(load_config(ROOT / "configs/quickstart.yaml", of_bigbird)).params == plain + biases
