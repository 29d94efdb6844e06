"""Parts side by side, and the norm after them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.encoders.edge.linear import LinearEdge
from graphbench.encoders.node.linear import LinearNode
from graphbench.encoders.positional.kernel_se import RWSE
from graphbench.encoders.positional.rwse_edge import RWSEEdge
from graphbench.structures import GraphBatch, Ragged


@pytest.fixture
def batch():
    return GraphBatch(
        Ragged.from_sizes([3, 2]),
        torch.tensor([[0, 1, 3, 4], [1, 0, 4, 3]]),
        x=torch.randn(5, 6),
        edge_attr=torch.randn(4, 2),
        pe={"RWSE.landing": torch.rand(5, 4)},
        edge_pe={"RWSEEdge.landing": torch.rand(4, 3)},
    )


class _Constant(nn.Module):
    def __init__(self, value, width):
        super().__init__()
        self.value, self.width = value, width

    def forward(self, batch):
        return torch.full((batch.num_nodes, self.width), self.value)


class _ConstantEdge(_Constant):
    def forward(self, batch):
        return torch.full((batch.num_edges, self.width), self.value)


class _Context(nn.Module):
    """Adds to the states and notes what it saw."""

    def __init__(self, name):
        super().__init__()
        self.name = name

    def forward(self, h, batch):
        return h + 1, batch.with_state(extra={**batch.state.extra, self.name: h})


def test_features_first_then_encodings_in_their_order(batch):
    encoder = NodeEncoder(_Constant(1.0, 2), {"B": _Constant(2.0, 1), "A": _Constant(3.0, 2)}, 5, batch_norm=False)
    h, after = encoder(batch)
    assert torch.equal(h, torch.tensor([1.0, 1, 2, 3, 3]).expand(5, 5))
    assert after is batch


def test_encodings_alone(batch):
    assert NodeEncoder(None, {"A": _Constant(3.0, 2)}, 2, batch_norm=False)(batch)[0].shape == (5, 2)


def test_no_part_at_all_is_the_raw_features(batch):
    assert NodeEncoder(None, {}, 6, batch_norm=False)(batch)[0] is batch.x
    integers = batch.replace(x=torch.ones(5, 6, dtype=torch.int64))
    assert NodeEncoder(None, {}, 6, batch_norm=False)(integers)[0].dtype == torch.float32


def test_batch_norm_follows_the_concatenation(batch):
    encoder = NodeEncoder(LinearNode(5, 6), {"RWSE": RWSE(3, [1, 2, 3, 4])}, 8, batch_norm=True)
    h, _ = encoder(batch)
    torch.testing.assert_close(h.mean(0), torch.zeros(8), atol=1e-5, rtol=0)
    torch.testing.assert_close(h.std(0, unbiased=False), torch.ones(8), atol=1e-2, rtol=0)
    edges = EdgeEncoder(LinearEdge(8, 2), {}, 8, batch_norm=True)
    torch.testing.assert_close(edges(batch).mean(0), torch.zeros(8), atol=1e-5, rtol=0)
    plain = EdgeEncoder(LinearEdge(8, 2), {}, 8, batch_norm=False)
    assert sum(p.numel() for p in edges.parameters()) == sum(p.numel() for p in plain.parameters()) + 16


def test_a_batch_without_edges_passes_the_norm_in_training():
    batch = GraphBatch(
        Ragged.from_sizes([1, 0]),
        torch.zeros(2, 0, dtype=torch.int64),
        x=torch.randn(1, 6),
        edge_attr=torch.zeros(0, 2),
    )
    edges = EdgeEncoder(LinearEdge(8, 2), {}, 8, batch_norm=True)
    assert edges(batch).shape == (0, 8)
    assert torch.equal(edges.norm.running_mean, torch.zeros(8))
    nodes = NodeEncoder(LinearNode(8, 6), {}, 8, batch_norm=True)
    assert torch.isfinite(nodes(batch)[0]).all()


def test_widths_must_add_up(batch):
    with pytest.raises(ValueError, match=r"LinearNode, RWSE.* widths \[5, 3\], which must add up to 9"):
        NodeEncoder(LinearNode(5, 6), {"RWSE": RWSE(3, [1, 2, 3, 4])}, 9, batch_norm=False)(batch)
    with pytest.raises(ValueError, match="without node encoder reads node features"):
        NodeEncoder(None, {}, 6, batch_norm=False)(batch.replace(x=None))


def test_encoders_that_work_on_the_whole_follow_in_their_order_and_come_before_the_norm(batch):
    contextual = {"first": _Context("first"), "second": _Context("second")}
    encoder = NodeEncoder(_Constant(1.0, 2), {"A": _Constant(3.0, 1)}, 3, batch_norm=False, batch_encoders=contextual)
    h, after = encoder(batch)
    assert torch.equal(h, torch.tensor([3.0, 3, 5]).expand(5, 3))
    assert torch.equal(after.state.extra["first"] + 1, after.state.extra["second"])
    assert not batch.state.extra
    normed = NodeEncoder(LinearNode(8, 6), {}, 8, batch_norm=True, batch_encoders={"first": _Context("first")})
    h, after = normed(batch)
    torch.testing.assert_close(h.mean(0), torch.zeros(8), atol=1e-5, rtol=0)
    torch.testing.assert_close(after.state.extra["first"], normed.features(batch))


def test_an_encoder_that_works_on_the_whole_may_add_nodes(batch):
    class AddsOne(nn.Module):
        def forward(self, h, batch):
            more = batch.replace(ragged=Ragged.from_sizes([4, 2]), x=None, pe={})
            return torch.cat([h[:1], h]), more

    h, after = NodeEncoder(LinearNode(8, 6), {}, 8, batch_norm=True, batch_encoders={"A": AddsOne()})(batch)
    assert h.shape == (after.num_nodes, 8) == (6, 8)


def test_edges_features_first_then_encodings(batch):
    encoder = EdgeEncoder(_ConstantEdge(1.0, 2), {"B": _ConstantEdge(2.0, 1)}, 3, batch_norm=False)
    assert torch.equal(encoder(batch), torch.tensor([1.0, 1, 2]).expand(4, 3))
    alone = EdgeEncoder(None, {"RWSEEdge": RWSEEdge(8, [1, 2])}, 8, batch_norm=True)
    torch.testing.assert_close(alone(batch).mean(0), torch.zeros(8), atol=1e-5, rtol=0)


def test_no_part_at_all_is_the_raw_edge_features(batch):
    encoder = EdgeEncoder(None, {}, 2, batch_norm=False)
    assert encoder(batch) is batch.edge_attr
    column = EdgeEncoder(None, {}, 1, batch_norm=False)(batch.replace(edge_attr=torch.arange(4)))
    assert torch.equal(column, torch.arange(4.0)[:, None])


def test_widths_of_edge_parts_must_add_up(batch):
    with pytest.raises(ValueError, match=r"edge encoder \(LinearEdge, RWSEEdge\) have widths \[5, 3\].*add up to 9"):
        EdgeEncoder(LinearEdge(5, 2), {"RWSEEdge": RWSEEdge(3, [1, 2])}, 9, batch_norm=False)(batch)
    with pytest.raises(ValueError, match="an edge encoder without parts reads edge features"):
        EdgeEncoder(None, {}, 2, batch_norm=False)(batch.replace(edge_attr=None))


def test_parts_added(batch):
    encoder = NodeEncoder(_Constant(1.0, 3), {"A": _Constant(2.0, 3)}, 3, batch_norm=False, join="add")
    assert torch.equal(encoder(batch)[0], torch.full((5, 3), 3.0))
    uneven = NodeEncoder(_Constant(1.0, 3), {"A": _Constant(2.0, 2)}, 3, batch_norm=False, join="add")
    with pytest.raises(ValueError, match=r"widths \[3, 2\], which must all be 3"):
        uneven(batch)
