"""GRIT's layer against its equations, pair by pair and graph by graph, over two layers that share pair states."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from graphbench.layers.blocks.grit import FIRST, STATES, GritTransformerLayer, signed_root
from graphbench.structures import GraphBatch
from tests.contract import alone, example_batch, shaken

SIZES = (5, 1, 7)
DIM, HEADS = 12, 3


def normed(norm: torch.nn.Module, rows: Tensor) -> Tensor:
    """Running statistics: the layers are evaluated."""
    if isinstance(norm, torch.nn.BatchNorm1d):
        return (rows - norm.running_mean) / (norm.running_var + norm.eps).sqrt() * norm.weight + norm.bias
    return norm(rows)


def plain(layer: GritTransformerLayer, graph: GraphBatch, h: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """One graph: h (n, dim), z (n, n, dim), row i the receiver."""
    n, width = graph.num_nodes, DIM // HEADS
    q, k, v, e = layer.q(h), layer.k(h), layer.v(h), layer.e(z)
    score = torch.empty(n, n, DIM, dtype=h.dtype)
    x = torch.zeros(n, DIM, dtype=h.dtype)
    for head in range(HEADS):
        c = slice(head * width, (head + 1) * width)
        for i in range(n):
            logits = []
            for j in range(n):
                pair = e[i, j, 2 * head * width : 2 * (head + 1) * width]
                product = (q[i, c] + k[j, c]) * pair[:width]
                s = torch.relu(product.sign() * product.abs().sqrt() + pair[width:])
                score[i, j, c] = s
                logits.append((s @ layer.score[:, head, 0]).clamp(-layer.clamp, layer.clamp))
            weight = torch.softmax(torch.stack(logits), 0)
            x[i, c] = weight @ v[:, c]
            if layer.pair_values is not None:
                x[i, c] += (weight @ score[i, :, c]) @ layer.pair_values[:, head]
    degree = torch.bincount(graph.edge_index[0], minlength=n)
    if layer.degree_scale is not None:
        theta = layer.degree_scale[0]
        x = x * theta[:, 0] + x * torch.log(1.0 + degree.double())[:, None] * theta[:, 1]
    h = normed(layer.norm_attention, h + layer.out_nodes(x))
    ffn = layer.feed_forward
    h = normed(layer.norm_ffn, h + ffn.lin_out(torch.relu(ffn.lin_in(h))))
    return h, normed(layer.norm_pairs, z + layer.out_pairs(score))


@pytest.mark.parametrize(
    "own",
    [
        {},
        {"norm": "layer", "clamp": 0.3, "use_bias": True},
        {"edge_enhance": False, "deg_scaler": False, "norm_e": False, "O_e": False},
    ],
    ids=str,
)
def test_two_layers_are_their_equations(own: dict[str, object]) -> None:
    layers = [shaken(GritTransformerLayer(DIM, HEADS, **own).double(), seed).eval() for seed in (0, 1)]
    batch = example_batch(SIZES)
    first = torch.randn(batch.ragged.num_pairs, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    h, e, after = batch.x, batch.edge_attr, batch.with_state(edge_states={FIRST: first})
    for layer in layers:
        h, e, after = layer(h, e, after)
    nodes, pairs, edges = [], [], []
    for number, block in enumerate(first.split([size * size for size in SIZES])):
        graph = alone(batch, number)
        state, z = graph.x, block.view(graph.num_nodes, graph.num_nodes, DIM).clone()
        for (source, target), value in zip(graph.edge_index.t().tolist(), graph.edge_attr):
            z[target, source] += value
        for layer in layers:
            state, z = plain(layer, graph, state, z)
        nodes.append(state)
        pairs.append(z.flatten(0, 1))
        edges.append(z[graph.edge_index[1], graph.edge_index[0]])
    torch.testing.assert_close(h, torch.cat(nodes))
    torch.testing.assert_close(after.state.edge_states[STATES], torch.cat(pairs))
    torch.testing.assert_close(e, torch.cat(edges))


def test_the_signed_root_has_a_gradient_everywhere() -> None:
    x = torch.tensor([-4.0, 0.0, 9.0], requires_grad=True)
    root = signed_root(x)
    root.sum().backward()
    assert root.tolist() == [-2.0, 0.0, 3.0]
    torch.testing.assert_close(x.grad, torch.tensor([0.25, 0.0, 1 / 6]))
