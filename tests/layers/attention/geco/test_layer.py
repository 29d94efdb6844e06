"""GECO: the equations with dense matrices, cyclic shifts, the surrogate matrix, orders of the nodes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench.errors import ArgumentError
from graphbench.layers.attention.geco.implicit_filter import positional_embedding
from graphbench.layers.attention.geco.layer import GECO
from graphbench.layers.attention.geco.local_context import LocalContext
from graphbench.layers.attention.geco.node_order import arrange, fixed_order, random_order, restore
from graphbench.layers.attention.geco.sequence_conv import SequenceConv
from graphbench.ops.circular_conv import fourier, reads_columns
from graphbench.structures import GraphBatch, Ragged
from tests.contract import (
    Subject,
    alone,
    check_batch_independence,
    check_corner_cases,
    check_gradients,
    example_batch,
    permuted,
    shaken,
)
from tests.second_device import DEVICE, second_device

DIM = 6
LOCALS = ("propagation", "gat", "conv-1", "conv-4", "none")
SIZES = (7, 1, 0, 12, 7)


def make(dim: int = DIM, **own: Any) -> GECO:
    torch.manual_seed(0)
    return shaken(GECO(dim, **{"filter_width": 8, **own}).double()).eval()


def graphs(sizes: tuple[int, ...] = SIZES) -> GraphBatch:
    return example_batch(sizes, node_dim=DIM)


def circulant(taps: Tensor) -> Tensor:
    """(n, n) matrix S of one filter, S[t, j] = f[(t - j) mod n]."""
    n = len(taps)
    return torch.stack([torch.stack([taps[(t - j) % n] for j in range(n)]) for t in range(n)])


def written_out(module: GECO, batch: GraphBatch) -> Tensor:
    """Algorithm 7 on one graph, with dense matrices."""
    n, x = batch.num_nodes, batch.x
    a = torch.zeros(n, n, dtype=x.dtype)
    a[batch.edge_index[1], batch.edge_index[0]] = 1.0
    root = torch.nan_to_num(a.sum(1).pow(-0.5), posinf=0.0).diag()
    x = module.local.norm(torch.cat([x, root @ a @ root @ x], dim=1))
    *gates, v = (x @ module.projection.weight.t() + module.projection.bias).split(DIM, dim=1)
    taps = module.filter(positional_embedding([n], 5))  # channels of the first filter first
    for number, gate in enumerate(gates):
        f = taps[:, number * DIM : (number + 1) * DIM]
        v = gate * torch.stack([circulant(f[:, c]) @ v[:, c] for c in range(DIM)], dim=1)
    return v


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 2, 11, 16])
def test_the_equations(order: int, size: int) -> None:
    module, batch = make(order=order), graphs((size,))
    torch.testing.assert_close(module(batch.x, None, batch), written_out(module, batch), atol=1e-11, rtol=1e-11)


def shifted(batch: GraphBatch, by: int) -> tuple[GraphBatch, Tensor]:
    """Node numbers inside every graph moved on by ``by``, around the end, and the order that does it."""
    parts = [torch.arange(n).roll(by) + int(batch.ragged.ptr[g]) for g, n in enumerate(batch.ragged.sizes)]
    order = torch.cat(parts)
    return permuted(batch, order), order


@pytest.mark.parametrize("local", ["propagation", "gat", "none"])
def test_a_cyclic_shift_of_the_nodes_shifts_the_output(local: str) -> None:
    module, batch = make(local_block=local), graphs()
    before = module(batch.x, None, batch)
    for by in (1, 3):
        moved, order = shifted(batch, by)
        torch.testing.assert_close(module(moved.x, None, moved), before[order], atol=1e-11, rtol=1e-11)


def test_any_other_order_matters() -> None:
    module, batch = make(), graphs()
    before = module(batch.x, None, batch)
    order = random_order(batch.ragged)
    moved = permuted(batch, order)
    assert (module(moved.x, None, moved) - before[order]).abs().max() > 1e-3


@pytest.mark.parametrize("own", [{}, {"order": 1}, {"order": 3}, {"permutation": "static"}, {"eval_permutations": 3}])
def test_the_surrogate_matrix_times_v_is_the_output(own: dict[str, Any]) -> None:
    module, batch = make(**own), graphs()
    v = module.projection(module.local(batch.x, batch, None))[:, -DIM:]
    expected = module(batch.x, None, batch)
    for graph, matrix in enumerate(module.surrogate_attention(batch.x, None, batch)):
        rows = slice(int(batch.ragged.ptr[graph]), int(batch.ragged.ptr[graph + 1]))
        assert matrix.shape == (DIM, batch.ragged.sizes[graph], batch.ragged.sizes[graph])
        out = torch.einsum("cij,jc->ic", matrix, v[rows])
        torch.testing.assert_close(out, expected[rows], atol=1e-11, rtol=1e-11)


def test_the_surrogate_matrix_is_equation_12() -> None:
    module, batch = make(), graphs((5,))
    k, q, _ = module.projection(module.local(batch.x, batch, None)).split(DIM, dim=1)
    phi, psi = module.filter(positional_embedding([5], 5)).split(DIM, dim=1)
    (some,) = module.surrogate_attention(batch.x, None, batch, channels=[4, 1])
    for found, c in zip(some, (4, 1), strict=True):
        for i in range(5):
            for j in range(5):
                total = sum(k[m, c] * psi[(i - m) % 5, c] * phi[(m - j) % 5, c] for m in range(5))
                torch.testing.assert_close(found[i, j], q[i, c] * total, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("local", LOCALS)
@pytest.mark.parametrize("own", [{"permutation": "static"}, {"permutation": "dynamic"}, {"eval_permutations": 2}])
def test_no_order_and_no_local_block_looks_at_batch_mates(local: str, own: dict[str, Any]) -> None:
    subject = Subject(make(local_block=local, **own), lambda m, b: {"h": m(b.x, None, b)}, {"h": "node"}, {"h": DIM})
    check_batch_independence(subject, graphs())
    check_gradients(subject, graphs())
    check_corner_cases(subject, lambda *args, **kwargs: example_batch(*args, node_dim=DIM, **kwargs))


def test_static_orders_stay_and_dynamic_ones_are_new_in_every_training_step() -> None:
    batch = graphs((30,))
    static, dynamic, natural = (make(permutation=each) for each in ("static", "dynamic", "natural"))
    for each in (static, dynamic, natural):
        each.local.norm.momentum = 0.0
        each.train()
    torch.testing.assert_close(static(batch.x, None, batch), static(batch.x, None, batch), atol=0, rtol=0)
    assert (static(batch.x, None, batch) - natural(batch.x, None, batch)).abs().max() > 1e-3
    assert (dynamic(batch.x, None, batch) - dynamic(batch.x, None, batch)).abs().max() > 1e-3
    dynamic.eval()
    natural.eval()
    assert torch.equal(dynamic(batch.x, None, batch), natural(batch.x, None, batch))


def test_evaluation_takes_the_mean_over_orders_and_approaches_equivariance() -> None:
    batch = graphs((9,))
    one, two = make(eval_permutations=1, permutation_seed=4), make(eval_permutations=1, permutation_seed=5)
    mean = make(eval_permutations=2, permutation_seed=4)
    for each in (two, mean):
        each.load_state_dict(
            {**one.state_dict(), "_extra_state": each.seed}  # only the orders differ
        )
    parts = torch.stack([each(batch.x, None, batch) for each in (one, two)])
    torch.testing.assert_close(mean(batch.x, None, batch), parts.mean(0))
    order = random_order(batch.ragged)
    moved = permuted(batch, order)
    spread = []
    for k in (1, 400):
        each = make(eval_permutations=k)
        spread.append((each(moved.x, None, moved) - each(batch.x, None, batch)[order]).norm())
    assert spread[1] < 0.2 * spread[0]


def test_the_seed_is_kept_with_the_parameters() -> None:
    batch = graphs()
    torch.manual_seed(3)
    trained = shaken(GECO(DIM, permutation="static").double()).eval()
    torch.manual_seed(4)
    other = GECO(DIM, permutation="static").double().eval()
    assert int(trained.seed) == 3
    other.load_state_dict(trained.state_dict())
    assert torch.equal(other(batch.x, None, batch), trained(batch.x, None, batch))
    assert int(GECO(DIM, permutation_seed=11).seed) == 11


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_mixed_precision(kind: torch.dtype) -> None:
    module, batch = make().float(), example_batch((40, 3), node_dim=DIM, dtype=torch.float32)
    full = module(batch.x, None, batch)
    with torch.autocast("cpu", kind):
        mixed = module(batch.x, None, batch)
    assert mixed.dtype == torch.float32
    assert (mixed - full).abs().max() < 0.05 * full.abs().max()
    assert module.to(kind)(batch.x.to(kind), None, batch).dtype == kind


def test_values_beyond_float16_stay_finite_in_mixed_precision() -> None:
    module, batch = make().float(), example_batch((3000,), node_dim=DIM, edges=False, pairs=False, dtype=torch.float32)
    with torch.no_grad():
        module.projection.bias += 5.0
    with torch.autocast("cpu", torch.float16):
        out = module(batch.x, None, batch)
    assert out.abs().max() > 65504
    assert torch.isfinite(out).all()


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"order": 0}, "order must be at least 1, received 0"),
        ({"eval_permutations": -1}, "eval_permutations must be at least 0, received -1"),
        ({"permutation": "random"}, "permutation must be one of natural, static, dynamic; received 'random'"),
        (
            {"local_block": "conv-0"},
            r"local_block must be propagation, gat, conv-<length> \(as in conv-10\) or none, received 'co",
        ),
        ({"emb_dim": 2}, "emb_dim must be odd"),
    ],
)
def test_wrong_arguments(own: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GECO(DIM, **own)


# --- orders and short convolutions ---------------------------------------------------------------------------------


def test_orders_stay_inside_graphs() -> None:
    batch = graphs()
    for order in (random_order(batch.ragged), fixed_order(batch, 7)):
        assert torch.equal(batch.ragged.graph_id[order], batch.ragged.graph_id)
        assert torch.equal(order.sort().values, torch.arange(batch.num_nodes))
        x = torch.randn(batch.num_nodes, 3, requires_grad=True)
        assert torch.equal(arrange(x, order)[0], x[order[0]])
        assert torch.equal(restore(arrange(x, order), order), x)
    assert random_order(Ragged.from_sizes(())).shape == fixed_order(graphs(()), 0).shape == (0,)


def test_fixed_orders_depend_on_seed_and_size_alone() -> None:
    batch = graphs()
    order = fixed_order(batch, 7)
    assert torch.equal(order[-7:] - 20, order[:7])
    assert torch.equal(fixed_order(alone(batch, 3), 7), order[8:20] - 8)
    assert not torch.equal(fixed_order(batch, 8), order)
    assert fixed_order(batch, 7) is order


def test_random_orders_are_uniform() -> None:
    ragged = Ragged.from_sizes([3] * 6000)
    places = (random_order(ragged).view(-1, 3) % 3 * torch.tensor([9, 3, 1])).sum(1)
    count = places.bincount()[places.unique()]
    assert len(count) == 6
    assert (count - 1000).abs().max() < 150  # five standard deviations


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("length", [1, 2, 3, 10])
def test_a_short_convolution_ends_with_its_graph(length: int, causal: bool) -> None:
    batch = graphs()
    conv = SequenceConv(DIM, length, causal=causal).double()
    out, left = conv(batch.x, batch), length - 1 if causal else (length - 1) // 2
    for graph, n in enumerate(batch.ragged.sizes):
        x = batch.x[int(batch.ragged.ptr[graph]) :][:n]
        for t in range(n):
            terms = [conv.weight[:, 0, j] * x[t - left + j] for j in range(length) if 0 <= t - left + j < n]
            torch.testing.assert_close(out[int(batch.ragged.ptr[graph]) + t], conv.bias + sum(terms))
    with pytest.raises(ValueError, match="length of a convolution must be at least 1, received 0"):
        SequenceConv(DIM, 0)


@pytest.mark.parametrize("kind", LOCALS)
def test_the_local_blocks(kind: str) -> None:
    """Width, and what comes from near a node: only from its neighbours, or from beside it in the order."""
    block, batch = shaken(LocalContext(DIM, kind).double()).eval(), graphs((7,))
    x = batch.x.clone().requires_grad_()
    out = block(x, batch, None)
    assert out.shape == (7, block.dim_out) == (7, DIM if kind == "none" else 2 * DIM)
    for node in range(7):
        (reach,) = torch.autograd.grad(out[node].sum(), x, retain_graph=True)
        neighbours = {*batch.edge_index[0, batch.edge_index[1] == node].tolist(), node}
        around = set(range(max(0, node - 1), min(7, node + 3)))
        allowed = {"none": {node}, "conv-1": {node}, "conv-4": around}.get(kind, neighbours)
        assert set(reach.abs().sum(1).nonzero().flatten().tolist()) == allowed


def test_attention_of_the_local_block_is_a_mean_of_neighbours() -> None:
    block, batch = LocalContext(DIM, "gat").double(), graphs((7,))
    near = block.near(batch.x, batch, None)
    for node in range(7):
        sources = batch.edge_index[0, batch.edge_index[1] == node]
        logit = batch.x[sources] @ block.near.source + batch.x[node] @ block.near.target
        weight = torch.softmax(torch.nn.functional.leaky_relu(logit, 0.2), dim=0)
        torch.testing.assert_close(near[node], (weight * batch.x[sources]).sum(0))


@pytest.mark.parametrize("own", [{}, {"order": 1, "local_block": "gat"}, {"permutation": "static"}], ids=str)
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("size", [48, 37])
def test_a_long_graph_elsewhere_is_computed_channel_by_channel(
    own: dict[str, Any], training: bool, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same output and gradients, and rows that lie behind each other, whatever lay inside."""
    monkeypatch.setattr(fourier, "COLUMNS_FROM", size)
    batch, results = graphs((size,)), []
    here = make(**own).train(training)
    there = copy.deepcopy(here)

    def run(module: GECO, batch: GraphBatch) -> None:
        out = module(batch.x, None, batch)
        assert out.is_contiguous()
        grads = torch.autograd.grad(out.square().sum(), list(module.parameters()))
        results.append([each.cpu() for each in (out, *grads)])

    run(here, batch)
    assert not reads_columns(batch.ragged)
    with second_device():
        batch = batch.to(DEVICE)
        assert reads_columns(batch.ragged)
        run(there.to(DEVICE), batch)
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("norm", ["l1", "l2", "channels"])
def test_normalised_filters(norm: str) -> None:
    module, batch = make(filter_norm=norm, omega=5.0), graphs()
    plain = module.filter(positional_embedding(batch.ragged.distinct_sizes, 5))
    expected = []
    for taps in plain.split(batch.ragged.distinct_sizes):
        size = {"l1": taps.abs().sum(0), "l2": taps.norm(dim=0), "channels": taps.abs().sum(1, keepdim=True)}[norm]
        expected.append(taps / size)
    torch.testing.assert_close(torch.cat(module.filters(batch), dim=1), torch.cat(expected), rtol=1e-11, atol=1e-12)


def test_normalised_filters_keep_the_scale_on_large_graphs() -> None:
    """Without norm the output grows with n; with it, it does not."""
    grown = {}
    for norm in ("none", "l2"):
        scales = []
        for n in (100, 3000):
            torch.manual_seed(0)
            module = GECO(16, filter_norm=norm, omega=10.0, local_block="none").eval()
            batch = GraphBatch(Ragged.from_sizes([n]), torch.zeros(2, 0, dtype=torch.int64), x=torch.randn(n, 16))
            scales.append(module(batch.x, None, batch).std().item())
        grown[norm] = scales[1] / scales[0]
    assert grown["none"] > 10
    assert 0.3 < grown["l2"] < 3


def test_unknown_filter_norm() -> None:
    with pytest.raises(ArgumentError, match="filter_norm must be one of none, l1, l2, channels; received 'max'"):
        GECO(4, filter_norm="max")  # type: ignore[arg-type]
