"""Adjacency products and message sums over edges."""

from __future__ import annotations

import itertools
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench.config import load_config
from graphbench.experiment import run
from graphbench.ops.propagate import (
    edge_softmax,
    gated_mean,
    gather,
    max_at_target,
    mean_at_target,
    propagate,
    relu_sum,
    sum_at_target,
)
from graphbench.structures import graph_batch
from graphbench.structures.adjacency import PIECE, Adjacency, LoopedAdjacency, adjacency, in_pieces
from tests.contract import example_batch
from tests.ops.ragged_inputs import assert_rounded_gradients, assert_same, assert_within_budget, normal
from tests.paths import ROOT
from tests.second_device import DEVICE, second_device

NORMS = ("sym", "row", "none")

GRAPHS = {
    "batch": lambda: (example_batch().edge_index, 27),
    "loops_and_repeats": lambda: (torch.tensor([[0, 0, 1, 1, 3, 2, 2], [0, 1, 0, 0, 2, 2, 2]]), 5),
    "directed_star": lambda: (torch.stack([torch.arange(1, 70), torch.zeros(69, dtype=torch.int64)]), 70),
    "no_edges": lambda: (torch.empty(2, 0, dtype=torch.int64), 4),
    "no_nodes": lambda: (torch.empty(2, 0, dtype=torch.int64), 0),
}
EVERY = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)


def dense(edge_index: Tensor, n: int, norm: str, self_loops: bool) -> Tensor:
    """The matrix, from its definition."""
    a = torch.zeros(n, n, dtype=torch.float64)
    for s, t in edge_index.T.tolist():
        a[t, s] += 1
    if self_loops:
        a.fill_diagonal_(1)
    degree = a.sum(1)
    inverse = torch.where(degree > 0, 1 / degree, 0.0)
    if norm == "row":
        return inverse[:, None] * a
    return a if norm == "none" else inverse.sqrt()[:, None] * a * inverse.sqrt()[None, :]


@EVERY
@pytest.mark.parametrize(("norm", "self_loops"), list(itertools.product(NORMS, [False, True])))
def test_propagate_is_a_product_with_the_matrix(graph, norm: str, self_loops: bool) -> None:
    edge_index, n = graph()
    adj, matrix = adjacency(edge_index, n, norm=norm, self_loops=self_loops), dense(edge_index, n, norm, self_loops)
    h = normal(n, 3)
    assert_same(lambda h: propagate(adj, h), lambda h: matrix @ h, [h])
    assert_same(lambda h: propagate(adj, h), lambda h: propagate(adj, h, backend="reference"), [h])


@pytest.mark.parametrize("shape", [(), (2, 3)], ids=str)
def test_propagate_takes_any_trailing_shape(shape: tuple[int, ...]) -> None:
    edge_index, n = GRAPHS["batch"]()
    adj, h = adjacency(edge_index, n, norm="sym"), normal(n, *shape)
    assert_same(lambda h: propagate(adj, h), lambda h: propagate(adj, h, backend="reference"), [h])


def operators(adj, n: int) -> dict:
    e = adj.num_edges
    return {
        "gather_source": (lambda h, **b: gather(adj, h, "source", **b), [normal(n, 3)]),
        "gather_target": (lambda h, **b: gather(adj, h, "target", **b), [normal(n, 2, 2)]),
        "sum_at_target": (lambda m, **b: sum_at_target(adj, m, **b), [normal(e, 3)]),
        "mean_at_target": (lambda m, **b: mean_at_target(adj, m, **b), [normal(e, 3)]),
        "max_at_target": (lambda m, **b: max_at_target(adj, m, **b), [normal(e, 2, 2)]),
        "edge_softmax": (lambda x, **b: edge_softmax(adj, x, **b), [normal(e, 2)]),
        "relu_sum": (lambda h, m, **b: relu_sum(adj, h, m, **b)[0], [normal(n, 3), normal(e, 3)]),
        "relu_sum_and_own": (
            lambda h, m, eps, **b: relu_sum(adj, h, m, eps=eps, **b)[0],
            [normal(n, 3), normal(e, 3), normal(1)],
        ),
        "gated_mean": (
            lambda t, s, m, v, **b: gated_mean(adj, t, s, m, v, **b)[0],
            [normal(n, 3), normal(n, 3), normal(e, 3), normal(n, 3)],
        ),
        "gated_logit": (
            lambda t, s, m, v, **b: torch.cat(gated_mean(adj, t, s, m, v, **b)) + 0 * v.sum(),
            [normal(n, 3), normal(n, 3), normal(e, 3), normal(n, 3)],
        ),
        "gated_mean_and_own": (
            lambda t, s, m, v, o, **b: gated_mean(adj, t, s, m, v, o, **b)[0],
            [normal(n, 3), normal(n, 3), normal(e, 3), normal(n, 3), normal(n, 3)],
        ),
        "gated_mean_with_gate": (
            lambda t, s, m, v, g, **b: gated_mean(adj, t, s, m, v, gate=g, **b)[0],
            [normal(n, 3), normal(n, 3), normal(e, 3), normal(n, 3), torch.rand(e, 1).double().requires_grad_()],
        ),
    }


NAMES = list(operators(adjacency(torch.empty(2, 0, dtype=torch.int64), 0), 0))


@EVERY
@pytest.mark.parametrize("name", NAMES)
def test_equals_reference(graph, name: str) -> None:
    edge_index, n = graph()
    function, inputs = operators(adjacency(edge_index, n), n)[name]
    assert_same(function, lambda *args: function(*args, backend="reference"), inputs)


HUBS = GRAPHS | {
    "directed_star_backwards": lambda: (torch.stack([torch.full((700,), 3), torch.arange(700)]), 700),
    "hubs_among_the_isolated": lambda: (torch.stack([torch.arange(200) % 3, torch.arange(200) % 7 // 3 * 40]), 99),
}


@pytest.mark.parametrize("graph", HUBS.values(), ids=HUBS)
@pytest.mark.parametrize("asked", [False, True])
def test_cut_into_pieces_it_is_the_same(graph, asked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What graphs with hubs go through on a GPU."""
    edge_index, n = graph()
    monkeypatch.setattr(sys.modules["graphbench.structures.adjacency"], "_MANY", 0 if asked else 1 << 20)
    for norm in NORMS:
        plain = adjacency(edge_index, n, norm=norm)
        cut, h = in_pieces(plain), normal(n, 3)
        for lists in (cut.by_target, cut.by_source):
            most = int((lists.ptr[1:] - lists.ptr[:-1]).max()) if n else 0
            assert (lists.pieces is not None) == (plain.num_edges > PIECE and (not asked or most > 2 * PIECE))
            if lists.pieces is not None:
                lengths = lists.pieces.ptr[1:] - lists.pieces.ptr[:-1]
                assert 0 <= lengths.min() <= lengths.max() == min(PIECE, most)
        assert_same(partial(propagate, cut), partial(propagate, plain, backend="reference"), [h])
    for name in ("gather_source", "gather_target", "edge_softmax", "gated_mean"):
        function, inputs = operators(cut, n)[name]
        assert_same(function, lambda *args, f=function: f(*args, backend="reference"), inputs)


def test_one_graph_elsewhere_is_cut_without_waiting() -> None:
    batch = example_batch((400,), pairs=False)
    with second_device() as waits:
        there = batch.to(DEVICE).adjacency(norm="sym")
        assert there.by_target.pieces is not None
        out = propagate(there, torch.ones(400, 2, dtype=torch.float64).to(DEVICE))
        assert not [x for x in waits if "propagate" in x]
        out = out.cpu()
    here = batch.adjacency(norm="sym")
    assert here.by_target.pieces is None
    torch.testing.assert_close(out, propagate(here, torch.ones(400, 2, dtype=torch.float64)))


@pytest.mark.parametrize("name", NAMES)
def test_gradcheck(name: str) -> None:
    edge_index, n = GRAPHS["loops_and_repeats"]()
    function, inputs = operators(adjacency(edge_index, n), n)[name]
    assert torch.autograd.gradcheck(function, inputs)


@pytest.mark.parametrize("name", NAMES)
def test_error_in_float32(name: str) -> None:
    edge_index, n = GRAPHS["directed_star"]()
    function, inputs = operators(adjacency(edge_index, n), n)[name]
    assert_within_budget(function, lambda *args: function(*args, backend="reference"), inputs)


def test_by_hand() -> None:
    """Path 0 - 1 - 2 with self loops: degrees 2, 3, 2."""
    adj = adjacency(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3, norm="sym", self_loops=True)
    out = propagate(adj, torch.tensor([[6.0], [0.0], [0.0]]).double())
    torch.testing.assert_close(out.flatten(), torch.tensor([3.0, 6 / 6**0.5, 0.0]).double())
    assert adj.by_target.ptr.tolist() == [0, 2, 5, 7]


@pytest.mark.parametrize("level", [-20.0, 8.0])
def test_gated_mean_in_half_precision(level: float) -> None:
    """Of closed gates, whose sum is small against eps, and of open ones, which are 1 but for less than a rounding."""
    edge_index, n = GRAPHS["directed_star"]()
    adj = adjacency(edge_index, n)
    inputs = [level + normal(n, 3), normal(n, 3), normal(adj.num_edges, 3), normal(n, 3)]
    half = [x.detach().half().requires_grad_() for x in inputs]
    ours, equation = (lambda *x, b=b: gated_mean(adj, *x, backend=b)[0] for b in ("cpu", "reference"))
    assert_rounded_gradients(ours, equation, half)


def test_gated_mean_by_hand() -> None:
    """Gates sigmoid(0) = 1/2 and sigmoid(ln 3) = 3/4: (0.5 * 1 + 0.75 * 5) / 1.25 = 3.4."""
    adj = adjacency(torch.tensor([[1, 2], [0, 0]]), 3)
    zero, e = torch.zeros(3, 1), torch.tensor([[0.0], [3.0]])
    e[1] = torch.tensor(3.0).log()
    out, logit = gated_mean(adj, zero, zero, e, torch.tensor([[9.0], [1.0], [5.0]]), eps=0.0 + 1e-12)
    assert out[0].item() == pytest.approx(3.4)
    assert not out[1:].any()
    torch.testing.assert_close(logit, e)


def test_an_edge_of_minus_infinity_takes_no_part() -> None:
    adj = adjacency(torch.tensor([[0, 1, 2], [2, 2, 2]]), 3)
    logits = torch.tensor([[0.0], [-torch.inf], [0.0]], requires_grad=True)
    out = edge_softmax(adj, logits)
    assert out.flatten().tolist() == [0.5, 0.0, 0.5]
    out[0].sum().backward()
    assert logits.grad.isfinite().all()


def test_nothing_of_the_size_of_the_edges_is_kept_besides_the_edge_states() -> None:
    edge_index, n = example_batch((400,), pairs=False).edge_index, 400
    adj = adjacency(edge_index, n)
    d, e = 8, adj.num_edges
    saved: dict[int, int] = {}
    hooks = torch.autograd.graph.saved_tensors_hooks(
        lambda t: saved.update({t.data_ptr(): t.numel()}) or t, lambda t: t
    )
    t, s, v, m = (normal(n, d), normal(n, d), normal(n, d), normal(e, d))
    with hooks:
        gated_mean(adj, t, s, m, v)
        relu_sum(adj, v, m)
    assert sum(saved.values()) <= 2 * e * d + 4 * n * d


def test_adjacency_of_is_kept_with_the_batch() -> None:
    batch = example_batch()
    first = batch.adjacency(norm="sym", self_loops=True)
    assert batch.adjacency(norm="sym", self_loops=True) is first
    assert batch.adjacency() is not first
    assert first.num_edges == batch.num_edges + batch.num_nodes


@pytest.mark.parametrize("name", ["gcn-cora", "sgformer-cora"])
def test_a_graph_is_normalised_once_per_run(
    name: str, data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten epochs of training and evaluation through the real loop, all layers together."""
    made = []

    def counted(*arguments: Any, **options: Any) -> Adjacency:
        made.append(options)
        return adjacency(*arguments, **options)

    monkeypatch.setattr(graph_batch, "adjacency", counted)
    monkeypatch.setenv("GRAPHBENCH_DATA", str(data_root))
    overrides = ["optim.max_epoch", "10", "train.eval_period", "1", "accelerator", "cpu", "out_dir", str(tmp_path)]
    result = run(load_config(ROOT / f"configs/nodes/{name}.yaml", [*overrides, "dataset.dir", str(tmp_path / "data")]))
    assert result is not None
    assert made == [{"norm": "sym", "self_loops": True, "order": None}]
    assert len((Path(result["run_dir"]) / "val" / "stats.json").read_text().splitlines()) == 10


def test_unknown_norm_is_refused() -> None:
    with pytest.raises(ValueError, match="'column'"):
        adjacency(torch.empty(2, 0, dtype=torch.int64), 3, norm="column")  # type: ignore[arg-type]


def test_mean_and_maximum_by_hand() -> None:
    """Three messages into node 0, two of them largest; none into node 1."""
    adj = adjacency(torch.tensor([[1, 1, 1], [0, 0, 0]]), 2)
    messages = torch.tensor([[-2.0], [-5.0], [-2.0]], requires_grad=True)
    assert mean_at_target(adj, messages).flatten().tolist() == [-3.0, 0.0]
    top = max_at_target(adj, messages)
    assert top.flatten().tolist() == [-2.0, 0.0]
    top.sum().backward()
    assert messages.grad.flatten().tolist() == [0.5, 0.0, 0.5]


def test_lists_with_loops_are_made_when_they_are_read() -> None:
    edge_index, made = torch.tensor([[0, 1, 2, 2], [1, 2, 2, 0]]), []
    expected = adjacency(edge_index, 3, norm="sym", self_loops=True)

    def make() -> Adjacency:
        made.append(True)
        return expected

    looped = LoopedAdjacency(adjacency(edge_index, 3), make)
    assert looped.plain.num_edges == 4
    assert not made
    assert looped.num_edges == 7
    assert looped.weight is expected.weight
    assert looped.by_target is expected.by_target
    assert torch.equal(looped.sorted_weights(torch.float32)[1], expected.sorted_weights(torch.float32)[1])
    assert len(made) == 1
