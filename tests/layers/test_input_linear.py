"""The linear map that reads raw features in any form."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphbench.layers.dropout import Dropout
from graphbench.layers.input_linear import InputLinear, Propagated, propagated, readable
from graphbench.layers.local.gcn import GCN
from graphbench.layers.local.gin import GIN
from graphbench.ops.propagate import propagate
from graphbench.structures import SparseRows
from graphbench.structures.adjacency import adjacency


def features() -> torch.Tensor:
    return torch.randn(40, 30, dtype=torch.float64) * (torch.rand(40, 30) < 0.2)


def test_parameters_are_those_of_a_linear_map() -> None:
    torch.manual_seed(3)
    ours = InputLinear(5, 4)
    torch.manual_seed(3)
    theirs = nn.Linear(5, 4)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))
    x = torch.randn(3, 5)
    assert torch.equal(ours(x), theirs(x))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("hops", [0, 1, 3])
def test_propagation_is_exchanged_with_the_map(bias: bool, hops: int) -> None:
    x, linear = features(), InputLinear(30, 4, bias=bias).double()
    adj = adjacency(torch.randint(0, 40, (2, 70)), 40, norm="row")  # some nodes have no edge: A 1 is not 1
    expected = x
    for _ in range(hops):
        expected = propagate(adj, expected)
    assert torch.equal(propagated(adj, x, hops), expected)
    waiting = propagated(adj, SparseRows.of(x), hops)
    assert isinstance(waiting, Propagated)
    torch.testing.assert_close(linear(waiting), linear(expected), rtol=0, atol=1e-12)


def test_modules_that_do_not_say_so_read_dense_features() -> None:
    x = features()
    rows, reads = SparseRows.of(x), GIN(3, 3)
    assert torch.equal(readable(rows, reads), x)
    assert readable(x, reads) is x
    assert readable(rows, GCN(3, 3)) is rows


def test_dropout_drops_stored_values() -> None:
    rows, dropout = SparseRows.of(torch.ones(100, 100) * (torch.rand(100, 100) < 0.5)), Dropout(0.25)
    dropped = dropout(rows)
    assert torch.equal(dropped.column, rows.column)
    assert torch.equal(dropped.value.unique(), torch.tensor([0.0, 4 / 3]))
    assert (dropped.value == 0).float().mean().item() == pytest.approx(0.25, abs=0.03)
    assert dropout.eval()(rows) is rows
