"""PolyFormer against its equations: dense polynomials, one node and one head at a time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphbench import registry
from graphbench.config import load_config
from graphbench.encoders.compose import NodeEncoder
from graphbench.heads.node import NodeHead
from graphbench.models.polyformer import PolyFormer
from graphbench.preflight import describe
from graphbench.structures import GraphBatch
from tests.contract import example_batch, shaken
from tests.paths import ROOT

DIM, HEADS, DEGREE = 8, 2, 3


def build(**own: Any) -> Any:
    arguments = {
        "encoder": NodeEncoder(None, {}, 12, batch_norm=False),
        "dim_encoded": 12,
        "dim": DIM,
        "layers": 2,
        "head": lambda width: NodeHead(width, 3),
        "num_heads": HEADS,
        "degree": DEGREE,
        "decay": 1.4,
        "expand": 0.5,
        "ffn_dim": 5,
    }
    return shaken(registry.construct(PolyFormer, {**arguments, **own}).double()).eval()


def polynomials(batch: GraphBatch, base: str) -> list[Tensor]:
    eye = torch.eye(batch.num_nodes, dtype=torch.float64)
    a = torch.zeros_like(eye)
    a[batch.edge_index[1], batch.edge_index[0]] = 1
    a = a + eye if base == "mono" else a
    scale = torch.where(a.sum(1) > 0, a.sum(1), 1).rsqrt()
    a = scale[:, None] * a * scale
    if base == "mono":
        return [torch.linalg.matrix_power(a, k) for k in range(DEGREE + 1)]
    return [eye, -a, 2 * a @ a - eye, -4 * a @ a @ a + 3 * a]


def attention(part: Any, t: Tensor) -> Tensor:
    """The K + 1 tokens of one node after the attention."""
    z = F.layer_norm(t, (DIM,), part.norm.weight, part.norm.bias)
    first, _, second = part.networks
    rows = []
    for k, row in enumerate(z):
        inner = (row @ first.weight[k] + first.bias[k, 0]).relu()
        rows.append(inner @ second.weight[k] + second.bias[k, 0])
    token = torch.stack(rows)
    heads = []
    for head in range(HEADS):
        own = slice(head * DIM // HEADS, (head + 1) * DIM // HEADS)
        q, k = token @ part.query.weight[own].t(), token @ part.key.weight[own].t()
        score = torch.tanh(q @ k.t() / (DIM / HEADS) ** 0.5)
        weight = torch.stack([part.scale[head, j] / (j + 1) ** 1.4 for j in range(DEGREE + 1)])
        heads.append(score * weight @ z[:, own])
    return t + torch.cat(heads, 1)


@pytest.mark.parametrize("base", ["mono", "cheb"])
def test_model_is_its_equations(base: str) -> None:
    model, batch = build(base=base), example_batch((6, 1, 5))
    tokens = [p @ batch.x @ model.lin_in.weight.t() + model.bias for p in polynomials(batch, base)]
    rows = []
    for t in torch.stack(tokens, 1):
        for block in model.layers:
            t = attention(block.attention, t)
            f = block.feed_forward
            z = F.layer_norm(t, (DIM,), block.norm.weight, block.norm.bias)
            t = t + f.lin_out(F.gelu(f.lin_in(z)))
        rows.append(t.sum(0))
    expected = model.head.mlp(model.lin(torch.stack(rows)).relu())
    torch.testing.assert_close(model(batch), expected)


def test_count_is_that_of_the_released_program() -> None:
    """Chameleon: 4 blocks of 7 tokens and 8 heads, width 256, 512 and 32 inside."""
    square, inside = 256 * 256, 2 * 256 * 512 + 512 + 256
    attention = 2 * 256 + 7 * inside + 2 * square + 8 * 7
    feed_forward = 2 * 256 + 2 * 256 * 32 + 32 + 256
    maps = [nn.Linear(2325, 256), nn.Linear(256, 256), nn.Linear(256, 5)]
    expected = 4 * (attention + feed_forward) + sum(each.numel() for part in maps for each in part.parameters())
    assert describe(load_config(ROOT / "configs/nodes/polyformer-chameleon.yaml")).params == expected


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"num_heads": 3}, "received dim=8, num_heads=3, base='mono'"),
        ({"base": "bern"}, "num_heads=2, base='bern'"),
        ({"degree": 0}, "degree must be at least 1, received 0"),
    ],
)
def test_wrong_values_are_named(own: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(**own)
