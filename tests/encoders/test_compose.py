"""Parts side by side, and the norm after them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.encoders.edge.linear import LinearEdge
from graphbench.encoders.node.linear import LinearNode
from graphbench.encoders.positional.rwse import RWSE
from graphbench.structures import GraphBatch, Ragged


@pytest.fixture
def batch():
    return GraphBatch(
        Ragged.from_sizes([3, 2]),
        torch.tensor([[0, 1, 3, 4], [1, 0, 4, 3]]),
        x=torch.randn(5, 6),
        edge_attr=torch.randn(4, 2),
        pe={"RWSE.landing": torch.rand(5, 4)},
    )


class _Constant(nn.Module):
    def __init__(self, value, width):
        super().__init__()
        self.value, self.width = value, width

    def forward(self, batch):
        return torch.full((batch.num_nodes, self.width), self.value)


def test_features_first_then_encodings_in_their_order(batch):
    encoder = NodeEncoder(_Constant(1.0, 2), {"B": _Constant(2.0, 1), "A": _Constant(3.0, 2)}, 5, batch_norm=False)
    assert torch.equal(encoder(batch), torch.tensor([1.0, 1, 2, 3, 3]).expand(5, 5))


def test_encodings_alone(batch):
    assert NodeEncoder(None, {"A": _Constant(3.0, 2)}, 2, batch_norm=False)(batch).shape == (5, 2)


def test_no_part_at_all_is_the_raw_features(batch):
    assert NodeEncoder(None, {}, 6, batch_norm=False)(batch) is batch.x
    integers = batch.replace(x=torch.ones(5, 6, dtype=torch.int64))
    assert NodeEncoder(None, {}, 6, batch_norm=False)(integers).dtype == torch.float32


def test_batch_norm_follows_the_concatenation(batch):
    encoder = NodeEncoder(LinearNode(5, 6), {"RWSE": RWSE(3, [1, 2, 3, 4])}, 8, batch_norm=True)
    h = encoder(batch)
    torch.testing.assert_close(h.mean(0), torch.zeros(8), atol=1e-5, rtol=0)
    torch.testing.assert_close(h.std(0, unbiased=False), torch.ones(8), atol=1e-2, rtol=0)
    edges = EdgeEncoder(LinearEdge(8, 2), 8, batch_norm=True)
    torch.testing.assert_close(edges(batch).mean(0), torch.zeros(8), atol=1e-5, rtol=0)
    plain = EdgeEncoder(LinearEdge(8, 2), 8, batch_norm=False)
    assert sum(p.numel() for p in edges.parameters()) == sum(p.numel() for p in plain.parameters()) + 16


def test_a_batch_without_edges_passes_the_norm_in_training():
    batch = GraphBatch(
        Ragged.from_sizes([1, 0]),
        torch.zeros(2, 0, dtype=torch.int64),
        x=torch.randn(1, 6),
        edge_attr=torch.zeros(0, 2),
    )
    edges = EdgeEncoder(LinearEdge(8, 2), 8, batch_norm=True)
    assert edges(batch).shape == (0, 8)
    assert torch.equal(edges.norm.running_mean, torch.zeros(8))
    nodes = NodeEncoder(LinearNode(8, 6), {}, 8, batch_norm=True)
    assert torch.isfinite(nodes(batch)).all()


def test_widths_must_add_up(batch):
    with pytest.raises(ValueError, match=r"LinearNode, RWSE.* widths \[5, 3\], which must add up to 9"):
        NodeEncoder(LinearNode(5, 6), {"RWSE": RWSE(3, [1, 2, 3, 4])}, 9, batch_norm=False)(batch)
    with pytest.raises(ValueError, match="without node encoder reads node features"):
        NodeEncoder(None, {}, 6, batch_norm=False)(batch.replace(x=None))
