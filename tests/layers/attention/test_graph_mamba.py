"""Graph-Mamba against its equations, graph by graph and row by row; the order of the nodes."""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.layers.attention.graph_mamba import GraphMamba, Mamba
from tests.contract import example_batch, shaken

SIZES = (6, 1, 11)


def block(mamba: Mamba, h: Tensor) -> Tensor:
    """Rows (n, dim) of one graph; the convolution is torch's, on a padded sequence."""
    inner = len(mamba.skip)
    x, z = (h @ mamba.lin_in.weight.t()).split(inner, 1)
    width = mamba.kernel.shape[1]
    padded = torch.cat([torch.zeros(width - 1, inner, dtype=h.dtype), x]).t()[None]
    x = torch.nn.functional.conv1d(padded, mamba.kernel[:, None], mamba.bias, groups=inner)[0].t()
    x = x * torch.sigmoid(x)
    low, b, c = (x @ mamba.lin_x.weight.t()).split([mamba.rank, mamba.states, mamba.states], 1)
    delta = torch.log1p(torch.exp(low @ mamba.lin_delta.weight.t() + mamba.lin_delta.bias))
    state, rows = torch.zeros(inner, mamba.states, dtype=h.dtype), []
    for t in range(len(h)):
        state = torch.exp(-delta[t][:, None] * mamba.log_rate.exp()) * state + (delta[t] * x[t])[:, None] * b[t]
        rows.append(state @ c[t] + mamba.skip * x[t])
    return (torch.stack(rows) * z * torch.sigmoid(z)) @ mamba.lin_out.weight.t()


def test_layer_is_its_equations() -> None:
    layer = shaken(GraphMamba(12, states=5, kernel=3, expansion=2).double()).eval()
    batch = example_batch(SIZES)
    degree = torch.bincount(batch.edge_index[0], minlength=batch.num_nodes).tolist()
    expected = torch.empty_like(batch.x)
    for rows in torch.arange(batch.num_nodes).split(batch.ragged.sizes):
        order = sorted(rows.tolist(), key=lambda node: degree[node])
        expected[order] = block(layer.mamba, batch.x[order])
    torch.testing.assert_close(layer(batch.x, None, batch), expected)


def test_equal_degrees_are_shuffled_in_training_only() -> None:
    layer, batch = GraphMamba(12).double(), example_batch(SIZES)
    assert not torch.equal(layer(batch.x, None, batch), layer(batch.x, None, batch))
    layer.eval()
    assert torch.equal(layer(batch.x, None, batch), layer(batch.x, None, batch))


def test_a_node_sees_no_node_of_higher_degree() -> None:
    layer, batch = GraphMamba(12).double().eval(), example_batch((7,))
    degree = torch.bincount(batch.edge_index[0], minlength=7)
    x = batch.x.clone().requires_grad_()
    lowest = int(degree.argmin())
    (gradient,) = torch.autograd.grad(layer(x, None, batch)[lowest].sum(), x)
    assert not gradient[torch.arange(7) != lowest].any()
