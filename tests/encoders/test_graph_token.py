"""A node for the whole graph: what happens to a batch, and which configurations may have one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from graphbench.config import load_config
from graphbench.encoders.positional.graph_token import GraphToken
from graphbench.encoders.token import prepend_token
from graphbench.errors import UserError
from graphbench.factory.data import declared_info
from graphbench.factory.model import build_model
from graphbench.factory.transforms import build_transforms
from graphbench.structures import EdgeSet, GraphBatch, HopNeighbors, PairBlocks, Ragged
from tests.contract import alone, example_batch
from tests.paths import ROOT
from tests.synthetic_batch import batch_like


def chain() -> GraphBatch:
    """Graphs of 3, 0 and 1 nodes: 0 -> 1 -> 2, none, 3; neighbour lists with one hop."""
    return GraphBatch(
        Ragged.from_sizes([3, 0, 1]),
        torch.tensor([[0, 1], [1, 2]]),
        x=torch.ones(4, 1),
        edge_attr=torch.ones(2, 1),
        y=torch.zeros(3),
        pe={"RWSE.landing": torch.ones(4, 2), "kind": torch.arange(1, 5)},
        pair_pe={"CosineSimilarity.distance": torch.arange(10.0), "GraphToken.read": torch.ones(10, 7)},
        edge_sets={"label": EdgeSet(torch.tensor([[2, 3], [0, 3]]), torch.tensor([0, 1, 1, 2]))},
        pairs=PairBlocks(torch.tensor([0, 1, 2, 255, 0, 1, 255, 255, 0, 0], dtype=torch.uint8), (3, 0, 1)),
        hops=HopNeighbors(
            torch.tensor([0, 2, 4, 5, 6]),
            torch.tensor([0, 1, 1, 2, 2, 3]),
            torch.tensor([0, 1, 0, 1, 0, 0], dtype=torch.uint8),
        ),
    )


def test_everything_moves_with_the_nodes() -> None:
    one, batch = GraphToken(2), chain()
    h, after = one(torch.arange(1.0, 5)[:, None].expand(4, 3), batch.with_state(virtual_edges=torch.ones(2, 1)))
    assert after.ragged.sizes == (4, 1, 2)
    assert h[:, 2].tolist() == [0, 1, 2, 3, 0, 0, 4]  # a column of an encoding that is named later
    assert torch.equal(h[[0, 4, 5], :2], one.token.expand(3, 2))
    assert after.edge_index.tolist() == [[1, 2], [2, 3]]
    assert after.edge_sets["label"].index.tolist() == [[3, 6], [1, 6]]
    assert after.x is None
    assert after.y is batch.y
    assert torch.equal(after.state.virtual_edges, torch.ones(2, 1))
    assert after.pe["kind"].tolist() == [0, 1, 2, 3, 0, 0, 4]
    assert after.pe["RWSE.landing"].shape == (7, 2)


def test_distances_by_hand() -> None:
    after = prepend_token(chain(), "GraphToken")[1]
    assert after.pairs.block(0).tolist() == [[0, 254, 254, 254], [254, 0, 1, 2], [254, 255, 0, 1], [254, 255, 255, 0]]
    assert after.pairs.block(1).tolist() == [[0]]
    assert after.pairs.block(2).tolist() == [[0, 254], [254, 0]]
    assert set(after.pair_pe) == {"CosineSimilarity.distance"}
    similar = after.pair_pe["CosineSimilarity.distance"]
    assert similar[:16].view(4, 4).tolist() == [[0] * 4, [0, 0, 1, 2], [0, 3, 4, 5], [0, 6, 7, 8]]
    assert similar[16:].tolist() == [0, 0, 0, 0, 9]


def test_neighbour_lists_by_hand() -> None:
    hops = prepend_token(chain())[1].hops
    assert hops.num_nodes == 7
    lists = [hops.col[a:b].tolist() for a, b in zip(hops.row_ptr[:-1], hops.row_ptr[1:])]
    away = [hops.hop[a:b].tolist() for a, b in zip(hops.row_ptr[:-1], hops.row_ptr[1:])]
    assert lists == [[0, 1, 2, 3], [0, 1, 2], [0, 2, 3], [0, 3], [4], [5, 6], [5, 6]]
    assert away == [[0, 254, 254, 254], [254, 0, 1], [254, 0, 1], [254, 0], [0], [0, 254], [254, 0]]


def test_a_graph_of_a_batch_is_the_graph_alone() -> None:
    batch = example_batch()
    after = prepend_token(batch)[1]
    for graph in range(batch.num_graphs):
        assert torch.equal(after.pairs.block(graph), prepend_token(alone(batch, graph))[1].pairs.block(0))


def test_no_graphs() -> None:
    h, after = GraphToken(2)(torch.zeros(0, 2), example_batch([]))
    assert h.shape == (0, 2)
    assert after.num_nodes == 0


def test_what_was_computed_without_the_token_is_refused() -> None:
    batch = example_batch([2, 2])
    for name, rows in {"EquivStableLapPE": 4, "pair_bias": 8}.items():
        with pytest.raises(ValueError, match=f"name GraphToken before the encoder of '{name}'"):
            GraphToken(2)(torch.zeros(4, 2), batch.with_state(extra={name: torch.zeros(rows, 2)}))


ON = ["posenc_GraphToken.enable", "true", "dataset.node_encoder_name", "TypeDictNode+RWSE+GraphToken"]


def mutag(*overrides: str):
    return load_config(ROOT / "configs/tu/gps-mutag.yaml", ["gt.layers", "2", *overrides])


def test_a_model_reads_its_token_and_learns_it(tmp_path: Path) -> None:
    config = mutag("dataset.node_encoder_name", "LinearNode+GraphToken", *ON[:2], "model.graph_pooling", "graph_token")
    info = declared_info(config)
    model = build_model(config, info)
    predicted = model(batch_like(info, build_transforms(config), tmp_path))
    predicted.square().sum().backward()
    assert model.encoder.contextual["GraphToken"].token.grad.abs().max() > 0


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model.graph_pooling", "graph_token"], "reads the token that GraphToken, or GraphormerBias with"),
        (
            [
                *(*ON[:2], "dataset.node_encoder_name", "LinearNode+GraphormerBias+GraphToken"),
                *("posenc_GraphormerBias.enable", "true", "posenc_GraphormerBias.num_spatial_types", "3"),
                *("posenc_GraphormerBias.num_in_degrees", "9", "posenc_GraphormerBias.num_out_degrees", "9"),
            ],
            "GraphormerBias and GraphToken each add a graph token",
        ),
    ],
)
def test_what_cannot_be_is_said(overrides: list[str], message: str) -> None:
    config = mutag(*overrides)
    with pytest.raises(UserError, match=message):
        build_model(config, declared_info(config))
