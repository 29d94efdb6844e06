"""NAGphormer against its equations: dense powers of the adjacency, torch's encoder layer on the tokens of a node."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphbench import registry
from graphbench.encoders.compose import NodeEncoder
from graphbench.heads.node import NodeHead
from graphbench.models.nagphormer import NAGphormer
from graphbench.structures import GraphBatch
from tests.contract import example_batch, shaken

DIM = 8


def build(**own: Any) -> Any:
    arguments = {
        "encoder": NodeEncoder(None, {}, 12, batch_norm=False),
        "dim_encoded": 12,
        "dim": DIM,
        "layers": 2,
        "head": lambda width: NodeHead(width, 3),
        "num_heads": 2,
    }
    return shaken(registry.construct(NAGphormer, {**arguments, **own}).double()).eval()


def normalised(batch: GraphBatch) -> Tensor:
    matrix = torch.eye(batch.num_nodes, dtype=torch.float64)
    matrix[batch.edge_index[1], batch.edge_index[0]] = 1
    scale = matrix.sum(1).rsqrt()
    return scale[:, None] * matrix * scale


def layer(block: Any, tokens: Tensor) -> Tensor:
    peer = nn.TransformerEncoderLayer(DIM, 2, 2 * DIM, 0.0, "gelu", batch_first=True, norm_first=True).double()
    names = {
        "attention.qkv.": "self_attn.in_proj_",
        "attention.out.": "self_attn.out_proj.",
        "feed_forward.lin_in.": "linear1.",
        "feed_forward.lin_out.": "linear2.",
        "norm_attention.": "norm1.",
        "norm_ffn.": "norm2.",
    }
    state = block.state_dict()
    peer.load_state_dict({b + part: state[a + part] for a, b in names.items() for part in ("weight", "bias")})
    return peer(tokens)


@pytest.mark.parametrize("hops", [1, 4])
def test_model_is_its_equations(hops: int) -> None:
    model, batch = build(hops=hops), example_batch((6, 1, 5))
    powers = [torch.linalg.matrix_power(normalised(batch), hop) @ batch.x for hop in range(hops + 1)]
    z = torch.stack([model.lin_in(power) for power in powers], 1)
    for block in model.layers:
        z = layer(block, z)
    z = model.norm(z)
    rows = []
    for tokens in z:
        scores = torch.stack([model.readout(torch.cat([tokens[0], hop])) for hop in tokens[1:]])
        rows.append(tokens[0] + (torch.softmax(scores, 0) * tokens[1:]).sum(0))
    expected = model.head.mlp(torch.relu(model.lin_out(torch.stack(rows))))
    torch.testing.assert_close(model(batch), expected)


@pytest.mark.parametrize(
    ("own", "message"), [({"hops": 0}, "hops must be at least 1, received 0"), ({"dim": 7}, "even, received 7")]
)
def test_wrong_values_are_named(own: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(**own)
