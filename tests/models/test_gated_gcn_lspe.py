"""GatedGCN-LSPE graph by graph and edge by edge from its equations, in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench import registry
from graphbench.contract import capture_obstacle, take_auxiliary_loss
from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.encoders.edge.linear import LinearEdge
from graphbench.encoders.node.linear import LinearNode
from graphbench.heads.graph import GraphHead
from graphbench.layers.norm import BatchNorm
from graphbench.models.gated_gcn_lspe import GatedGCNLSPE
from graphbench.structures import GraphBatch
from tests.contract import alone, edges_of, example_batch, shaken

DIM, COLUMNS = 6, 3


def build(*, edges: bool = True, **own: Any) -> Any:
    arguments = {
        "encoder": NodeEncoder(LinearNode(DIM, 12), {}, DIM, batch_norm=False),
        "dim_encoded": DIM,
        "edge_encoder": EdgeEncoder(LinearEdge(DIM, 12), {}, DIM, batch_norm=False) if edges else None,
        "dim_edge": DIM,
        "dim": DIM,
        "layers": 3,
        "head": lambda width: GraphHead(width, 2, pooling="mean"),
        "positions": COLUMNS,
    }
    return shaken(registry.construct(GatedGCNLSPE, {**arguments, **own}).double()).eval()


def molecules() -> GraphBatch:
    return example_batch((6, 1, 4), pe={"RandomWalkSE.landing": (COLUMNS,)}, pairs=False)


def normed(norm: Any, h: Tensor) -> Tensor:
    return (h - norm.running_mean) / (norm.running_var + norm.eps).sqrt() * norm.weight + norm.bias


def plain(model: Any, batch: GraphBatch) -> tuple[Tensor, Tensor]:
    """Prediction and last positions of one graph."""
    h, count = model.encoder(batch)[0], batch.num_nodes
    e = model.first_edge.expand(batch.num_edges, -1) if model.edge_encoder is None else model.edge_encoder(batch)
    p = batch.pe["RandomWalkSE.landing"] @ model.position_in.weight.T + model.position_in.bias
    for layer in model.layers:
        new, moved, logits = [], [], torch.zeros_like(e)
        for t in range(count):
            weighted, seen, total = torch.zeros(DIM).double(), torch.zeros(DIM).double(), torch.zeros(DIM).double()
            for edge in (batch.edge_index[1] == t).nonzero().flatten().tolist():
                s = int(batch.edge_index[0, edge])
                logits[edge] = layer.gate_source(h[s]) + layer.gate_target(h[t]) + layer.gate_edge(e[edge])
                weight = torch.sigmoid(logits[edge])
                total += weight
                weighted += weight * layer.lin_neighbor(torch.cat([h[s], p[s]]))
                seen += weight * layer.position_neighbor(p[s])
            new.append((layer.lin_self(torch.cat([h[t], p[t]])) + weighted / (total + 1e-6)) / count**0.5)
            moved.append(layer.position_self(p[t]) + seen / (total + 1e-6))
        h = h + normed(layer.node_norm, torch.stack(new)).relu()
        p = p + torch.stack(moved).tanh()
        e = e if layer.edge_norm is None else e + normed(layer.edge_norm, logits).relu()
    q = model.position_out(p)
    if model.settings.unit_positions:
        q = q - q.mean(0)
        q = q / (q.square().sum(0) + 1e-6).sqrt()
    return model.head.mlp(model.join(torch.cat([h, q], 1)).mean(0, keepdim=True)), q


@pytest.mark.parametrize("own", [{}, {"unit_positions": False}, {"edges": False}], ids=str)
def test_model_is_its_equations(own: dict[str, Any]) -> None:
    model, batch = build(**own), molecules()
    with torch.no_grad():
        expected = torch.cat([plain(model, alone(batch, graph))[0] for graph in range(batch.num_graphs)])
        torch.testing.assert_close(model(batch), expected, rtol=1e-10, atol=1e-10)
    assert take_auxiliary_loss(model.modules()) is None


def test_loss_is_that_of_laplacians_as_matrices() -> None:
    model, batch = build(laplacian_loss=0.7, orthogonality=0.3), molecules()
    model.train()
    for norm in model.modules():
        norm.train(not isinstance(norm, BatchNorm))  # plain() reads running statistics
    model(batch)
    loss = take_auxiliary_loss(model.modules())
    assert loss is not None
    total = torch.zeros(()).double()
    for graph in range(batch.num_graphs):
        one = alone(batch, graph)
        assert one.num_edges == int(edges_of(batch, graph).sum())
        q, adjacency = plain(model, one)[1], torch.zeros(one.num_nodes, one.num_nodes).double()
        adjacency[one.edge_index[0], one.edge_index[1]] = 1
        scale = adjacency.sum(1).clamp(min=1).rsqrt()
        laplacian = torch.eye(one.num_nodes).double() - scale[:, None] * adjacency * scale
        total += torch.trace(q.T @ laplacian @ q) + 0.3 * (q.T @ q - torch.eye(COLUMNS).double()).square().sum()
    torch.testing.assert_close(loss, 0.7 * total / (COLUMNS * batch.num_graphs * batch.num_nodes), rtol=1e-9, atol=0)
    loss.backward()
    assert model.position_out.weight.grad.abs().sum() > 0
    assert all(parameter.grad is None for parameter in model.head.parameters())


def test_what_can_be_captured() -> None:
    assert capture_obstacle(build()) is None
    assert "computed over all graphs of a batch" in str(capture_obstacle(build(laplacian_loss=0.1)))


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"positions": 0}, "positions must be at least 1, received 0"),
        ({"laplacian_loss": -1.0}, "laplacian_loss must be at least 0, received -1"),
        ({"laplacian_loss": 1.0, "unit_positions": False}, "laplacian_loss needs unit_positions"),
        ({"dim_encoded": 5}, "layers add encoded nodes to hidden states, received 5 and 6 columns"),
        ({"dim_edge": 5}, "edge states are 6 columns wide, received 5"),
        ({"layers": 0}, "layers must be at least 1"),
    ],
)
def test_wrong_arguments_are_named(own: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(**own)


def test_it_asks_for_the_random_walks_that_it_reads() -> None:
    assert GatedGCNLSPE.required_transforms({"positions": 3}) == {"RandomWalkSE": {"times": [1, 2, 3]}}
    with pytest.raises(ValueError, match="reads random walks of 3 lengths, received none"):
        build()(example_batch((3,)))
