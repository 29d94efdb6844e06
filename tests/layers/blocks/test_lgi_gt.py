"""LGI-GT's layer against PyG's convolution and torch's encoder layer, graph by graph."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GINEConv

from graphbench.layers.blocks.lgi_gt import LGIGTLayer
from graphbench.layers.local.ogb import OGBGCN
from tests.contract import example_batch, shaken

DIM, EDGE, HEADS = 12, 12, 3


def encoder_layer(layer: LGIGTLayer, y: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Attention by torch, with the norms of the layer, which are per channel over all rows."""
    attention = nn.MultiheadAttention(DIM, HEADS, batch_first=True).double()
    state = layer.attention.state_dict()
    names = {"in_proj_": "qkv.", "out_proj.": "out."}
    attention.load_state_dict({a + part: state[b + part] for a, b in names.items() for part in ("weight", "bias")})
    mixed = torch.cat([attention(part, part, part)[0] for part in y[:, None].transpose(0, 1).split(sizes, 1)], 1)[0]
    a = nn.functional.batch_norm(y + mixed, *running(layer.norm_attention))
    inner = layer.feed_forward.lin_out(layer.feed_forward.lin_in(a).relu())
    return nn.functional.batch_norm(a + inner, *running(layer.norm_ffn))


def running(norm: nn.BatchNorm1d) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return norm.running_mean, norm.running_var, norm.weight, norm.bias


@pytest.mark.parametrize("conv", ["GIN", "GCN"])
@pytest.mark.parametrize("edges", [True, False])
def test_layer_is_a_convolution_and_an_encoder_layer(conv: str, edges: bool) -> None:
    sizes = (6, 1, 5)
    batch = example_batch(sizes)
    layer = shaken(LGIGTLayer(DIM, HEADS, dim_edge=EDGE if edges else 0, conv=conv).double()).eval()
    h, e = torch.randn(12, DIM, dtype=torch.float64), batch.edge_attr if edges else None
    mapped = torch.zeros(batch.num_edges, DIM).double() if layer.lin_edge is None else layer.lin_edge(batch.edge_attr)
    if conv == "GIN":
        peer = GINEConv(layer.conv).double()
        convolved = peer(h, batch.edge_index, mapped)
    else:
        assert isinstance(layer.conv, OGBGCN)
        convolved, _ = layer.conv(h, mapped, batch)
    y = nn.functional.batch_norm(h + convolved, *running(layer.norm_conv))
    new, unchanged, _ = layer(h, e, batch)
    torch.testing.assert_close(new, y + encoder_layer(layer, y, sizes))
    assert unchanged is e


def test_another_convolution_is_refused() -> None:
    with pytest.raises(ValueError, match="conv must be one of GIN, GCN; received 'EELA'"):
        LGIGTLayer(DIM, HEADS, conv="EELA")
