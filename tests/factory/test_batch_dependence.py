"""Graphs of a batch that change each other's predictions are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphbench import registry
from graphbench.config import load_config
from graphbench.factory.batch_dependence import batch_dependence
from tests.paths import ROOT
from tests.test_main import TINY

LOCAL = """
import torch
from graphbench.layers.contract import LocalLayer
from graphbench.registry import register


@register("Bare")
class Bare(LocalLayer):
    def forward(self, h, e, batch):
        return {returned}, e
"""
CASES = [
    ("2 * h", "graphs of a batch do not change each other's predictions (8 graphs: "),
    ("h + h.mean(0)", "warning: graphs of a batch change each other's predictions, by "),
    ("h + torch.randn_like(h)", "predictions are random in evaluation: "),
]


@pytest.mark.parametrize(("returned", "expected"), CASES)
def test_a_local_layer_that_reads_the_whole_batch_is_found(tmp_path: Path, returned: str, expected: str) -> None:
    (tmp_path / "plugin.py").write_text(LOCAL.format(returned=returned))
    yaml = tmp_path / "c.yaml"
    yaml.write_text(
        f"_base_: {ROOT}/configs/quickstart.yaml\nplugins: [plugin.py]\ngt: {{layer_type: Bare+SGFormer}}\n"
    )
    try:
        found = batch_dependence(load_config(yaml, TINY))
    finally:
        registry.forget("layers/local", "Bare")
    assert str(found).startswith(expected)


def test_one_graph_has_no_batch() -> None:
    config = load_config(ROOT / "configs/synthetic/sgformer-erdos-renyi.yaml", ["dataset.ErdosRenyi.nodes", "40"])
    assert batch_dependence(config) is None
