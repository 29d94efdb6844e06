"""LINKX against PyG's, GloGNN against the minimiser of its objective, built as a matrix."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import LINKX as PygLINKX

from graphbench import registry
from graphbench.encoders.compose import NodeEncoder
from graphbench.heads.graph import GraphHead
from graphbench.heads.node import NodeHead
from graphbench.models.glognn import CoefficientSettings, GlobalRound, GloGNN
from graphbench.models.linkx import LINKX
from graphbench.structures import GraphBatch
from tests.contract import example_batch, shaken

DIM, CLASSES = 8, 3


def build(model: type[nn.Module], **own: Any) -> Any:
    arguments = {
        "encoder": NodeEncoder(None, {}, 12, batch_norm=False),
        "dim_encoded": 12,
        "dim": DIM,
        "head": lambda width: NodeHead(width, CLASSES),
    }
    return shaken(registry.construct(model, {**arguments, **own}).double()).eval()


@pytest.fixture
def graph() -> GraphBatch:
    return example_batch((12,))


@pytest.mark.parametrize("edge_layers", [1, 3])
@pytest.mark.parametrize("node_layers", [1, 2])
def test_linkx_equals_pyg(graph: GraphBatch, edge_layers: int, node_layers: int) -> None:
    model = build(LINKX, nodes=12, edge_layers=edge_layers, node_layers=node_layers, final_layers=1)
    peer = PygLINKX(12, 12, DIM, CLASSES, 2, edge_layers, node_layers).double().eval()
    names = {"rows.": "edge_lin.", "lin_edges.": "cat_lin1.", "lin_nodes.": "cat_lin2."}
    names |= {f"mlp_nodes.lin.{i}.": f"node_mlp.lins.{i}." for i in range(node_layers)}
    names |= {f"mlp_nodes.norms.{i}.": f"node_mlp.norms.{i}.module." for i in range(node_layers - 1)}
    names |= {"mlp_final.0.": "final_mlp.lins.0.", "mlp_final.2.": "final_mlp.norms.0.module."}
    names |= {"head.mlp.lin.0.": "final_mlp.lins.1."}
    if edge_layers > 1:
        names |= {"norm_edges.": "edge_norm."}
        names |= {f"mlp_edges.lin.{i}.": f"edge_mlp.lins.{i}." for i in range(edge_layers - 1)}
        names |= {f"mlp_edges.norms.{i}.": f"edge_mlp.norms.{i}.module." for i in range(edge_layers - 2)}
    state = {}
    for name, value in model.state_dict().items():
        prefix = next(each for each in names if name.startswith(each))
        state[names[prefix] + name.removeprefix(prefix)] = value
    peer.load_state_dict(state)
    torch.testing.assert_close(model(graph), peer(graph.x, graph.edge_index))


def minimiser(h: Tensor, initial: Tensor, target: Tensor, s: CoefficientSettings) -> Tensor:
    """Z where the gradient of the objective is 0: Z (a H H^T + c I) = (1 - gamma)(H - gamma H_0) H^T + beta target."""
    keep = 1 - s.gamma
    left = keep * (h - s.gamma * initial) @ h.t() + s.beta * target
    right = keep**2 * h @ h.t() + (s.alpha + s.beta) * torch.eye(len(h), dtype=h.dtype)
    return torch.linalg.solve(right.t(), left.t()).t()


@pytest.mark.parametrize(
    "settings",
    [CoefficientSettings(), CoefficientSettings(orders=3, alpha=0.5, beta=2.0, gamma=0.3)],
)
def test_a_round_is_the_minimiser(settings: CoefficientSettings) -> None:
    batch = example_batch((7, 1, 5))
    layer = shaken(GlobalRound(settings).double())
    h, initial = torch.randn(2, batch.num_nodes, 4, dtype=torch.float64)
    matrix = torch.eye(batch.num_nodes, dtype=torch.float64)
    matrix[batch.edge_index[1], batch.edge_index[0]] = 1
    scale = matrix.sum(1).rsqrt()
    matrix = scale[:, None] * matrix * scale
    expected = []
    for rows in torch.arange(batch.num_nodes).split(batch.ragged.sizes):
        one = matrix[rows][:, rows]
        target = sum(w * torch.linalg.matrix_power(one, k) for k, w in enumerate(layer.order_weights, 1))
        z = minimiser(h[rows], initial[rows], target, settings)
        expected.append((1 - settings.gamma) * z @ h[rows] + settings.gamma * initial[rows])
    torch.testing.assert_close(layer(h, initial, batch), torch.cat(expected))


def test_the_minimiser_has_no_gradient() -> None:
    s = CoefficientSettings(alpha=0.5, beta=2.0, gamma=0.3)
    h, initial = torch.randn(2, 6, 3, dtype=torch.float64)
    target = torch.randn(6, 6, dtype=torch.float64)
    z = minimiser(h, initial, target, s).requires_grad_()
    loss = (h - 0.7 * z @ h - 0.3 * initial).square().sum() + 0.5 * z.square().sum() + 2 * (z - target).square().sum()
    (gradient,) = torch.autograd.grad(loss, z)
    torch.testing.assert_close(gradient, torch.zeros_like(gradient), atol=1e-10, rtol=0)


def test_glognn_works_on_its_predictions(graph: GraphBatch) -> None:
    model = build(GloGNN, of_predictions=True, nodes=12, delta=0.25, orders=2, gamma=0.1)
    rows = torch.zeros(12, DIM, dtype=torch.float64)
    for source, target in graph.edge_index.t():
        rows[target] += model.rows.weight[source]
    h = torch.relu(0.25 * (graph.x @ model.lin.weight.t() + model.lin.bias) + 0.75 * (rows + model.rows.bias))
    initial = model.head.mlp(h)
    expected = model.rounds(model.rounds(initial, initial, graph), initial, graph)
    torch.testing.assert_close(model(graph), expected)


@pytest.mark.parametrize(
    ("model", "own", "message"),
    [
        (LINKX, {"nodes": -1}, "nodes must be at least 0, received -1"),
        (LINKX, {"edge_layers": 0}, "edge_layers must be at least 1, received 0"),
        (GloGNN, {"delta": 0.5}, "delta = 0.5 reads adjacency rows: set nodes, received 0"),
        (GloGNN, {"gamma": 1.0}, "received 1.0 and 1.0"),
        (GloGNN, {"beta": 0.0}, r"alpha \+ beta must be positive, received 0.0 and 0.0"),
        (GloGNN, {"adjacency": "col"}, "adjacency must be one of sym, row; received .col"),
        (GloGNN, {"orders": 0}, "orders must be at least 1, received 0"),
    ],
)
def test_wrong_values_are_named(model: type[nn.Module], own: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(model, **own)


@pytest.mark.parametrize("model", [LINKX, GloGNN])
def test_another_graph_is_refused(model: type[nn.Module]) -> None:
    built = build(model, nodes=11, **({"delta": 0.5} if model is GloGNN else {}))
    with pytest.raises(ValueError, match=r"one graph of 11 nodes .*received 1 graphs of 12 nodes in all"):
        built(example_batch((12,)))


def test_rounds_on_predictions_of_graphs_are_refused() -> None:
    model = build(GloGNN, of_predictions=True, head=lambda width: GraphHead(width, CLASSES))
    with pytest.raises(ValueError, match="a prediction per node, received 2 for 7 nodes"):
        model(example_batch((4, 3)))
