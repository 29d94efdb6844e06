"""GECO as a model: Algorithm 2, what it accepts as parts, whole graphs only."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from graphbench.config import load_config
from graphbench.errors import UserError
from graphbench.factory.data import declared_info
from graphbench.factory.model import build_model, layer_names
from graphbench.layers.attention.exphormer import Exphormer
from graphbench.layers.attention.geco.hyena import Hyena
from graphbench.layers.attention.geco.layer import GECO
from graphbench.layers.local.gated_gcn import CustomGatedGCN
from graphbench.layers.local.gcn import GCN
from graphbench.models.geco import GECOModel, PostNormBlock
from graphbench.preflight import describe
from tests.contract import example_batch, shaken
from tests.paths import ROOT

DIM = 12
CONFIGS = ROOT / "configs"


def block(*parts: nn.Module, dropout: float = 0.0) -> PostNormBlock:
    return shaken(PostNormBlock(DIM, parts, act="gelu", dropout=dropout).double()).eval()


def layer_norm(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    centred = x - x.mean(1, keepdim=True)
    return centred / (x.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt() * norm.weight + norm.bias


def test_a_block_is_algorithm_2() -> None:
    attention, local, batch = GECO(DIM), GCN(DIM, DIM), example_batch()
    module = block(local, attention)
    h, e, same = module(batch.x, batch.edge_attr, batch)
    x = layer_norm(batch.x + local(batch.x, None, batch)[0] + attention(batch.x, None, batch), module.norm)
    first, second = module.feed_forward.lin_in, module.feed_forward.lin_out
    assert first.weight.shape == second.weight.shape == (DIM, DIM)
    torch.testing.assert_close(h, layer_norm(x + second(nn.functional.gelu(first(x))), module.norm_out))
    assert e is batch.edge_attr
    assert same is batch


def test_dropout_lies_behind_the_parts_and_in_the_feed_forward_part() -> None:
    module, batch = block(GECO(DIM), dropout=1.0).train(), example_batch()
    h, _, _ = module(batch.x, None, batch)
    torch.testing.assert_close(h, layer_norm(layer_norm(batch.x, module.norm), module.norm_out))


@pytest.mark.parametrize(
    "make", [lambda: CustomGatedGCN(DIM, DIM, dim_edge=DIM), lambda: Exphormer(DIM, 2, dim_edge=DIM)]
)
def test_parts_with_a_residual_or_pairs_of_their_own_are_refused(make: Callable[[], nn.Module]) -> None:
    with pytest.raises(ValueError, match="adds a residual or passes state to the next block"):
        block(make())


def built(*overrides: str) -> nn.Module:
    config = load_config(CONFIGS / "nodes/geco-cora.yaml", overrides)
    return build_model(config, declared_info(config))


@pytest.mark.parametrize(
    ("name", "kinds"), [("GECO", [GECO]), ("Hyena", [Hyena]), ("GCN+GECO", [GCN, GECO]), ("GCN+None", [GCN])]
)
def test_blocks_hold_what_the_configuration_names(name: str, kinds: list[type]) -> None:
    model = built("gt.layer_type", name, "gt.layers", "3", "gnn.dropout", "0.25", "gt.attn_dropout", "0.125")
    assert isinstance(model, GECOModel)
    assert len(model.layers) == 3
    for each in model.layers:
        assert [type(part) for part in each.parts] == kinds
        assert each.dropout.p == each.feed_forward.dropout.p == 0.25
        assert all(part.dropout.p == 0.125 for part in each.parts if isinstance(part, (GECO, Hyena)))
    assert layer_names(model) == [type(part).registered_name for each in model.layers for part in each.parts]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["gt.layer_type", "None+None"], r"gt.layer_type of this model is <local>\+<global>"),
        (["gt.GECO.order", "0"], "command line: gt.GECO.order: order must be at least 1"),
        (
            ["gt.GECO.permutation", "statik"],
            "gt.GECO.permutation received 'statik'. Did you mean 'static'",
        ),
        (
            ["gt.GECO.local_block", "cnn"],
            "gt.GECO.local_block: local_block must be propagation, gat, conv-<length>",
        ),
        (["gt.GECO.emb_dim", "4"], "command line: gt.GECO.emb_dim: emb_dim must be odd and at least 3, received 4"),
        (
            [
                "gt.layer_type",
                "CustomGatedGCN+GECO",
                "dataset.edge_encoder",
                "true",
                "dataset.edge_encoder_name",
                "DummyEdge",
            ],
            "CustomGatedGCN",
        ),
    ],
)
def test_messages(overrides: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        built(*overrides)


def test_nothing_to_put_into_a_block() -> None:
    with pytest.raises(ValueError, match="a block needs an attention, a local layer or both, received neither"):
        GECOModel(nn.Identity(), DIM, None, DIM, 1, None, None, nn.Identity)


SHIPPED = sorted(path for path in CONFIGS.glob("*/geco-*.yaml") if path.parent.name != "sweeps")


def params(path: Path) -> int:
    return describe(load_config(path)).params


def test_parameters_are_those_the_paper_allows() -> None:
    """500,000 on the Long Range Graph Benchmark (Appendix A.1), 6.2 million on PCQM4Mv2 (Table 3)."""
    small = [path for path in SHIPPED if path.parent.name == "lrgb"]
    assert len(small) == 5
    for path in small:
        assert 480_000 < params(path) <= 500_000, path
    assert round(params(CONFIGS / "ogb/geco-pcqm4m.yaml") / 1e6, 1) == 6.2


def test_the_overview_prints_these_counts() -> None:
    rows = re.findall(r"\]\((\w+/geco-[\w-]+\.yaml)\) \|  \| ([\d,]+) \|", (CONFIGS / "README.md").read_text())
    assert {name: int(count.replace(",", "")) for name, count in rows} == {
        f"{path.parent.name}/{path.name}": params(path) for path in SHIPPED
    }
