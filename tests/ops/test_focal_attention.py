"""Focal attention: hand example, fast paths against the reference, reach, tables, lists, corner cases."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor

from graphbench.ops.focal_attention import Relation, cpu, focal_attention, lists
from graphbench.ops.softmax_attention import softmax_attention
from graphbench.structures import HopNeighbors, PairBlocks, Ragged
from tests.ops.ragged_inputs import assert_same, assert_within_budget, normal
from tests.second_device import DEVICE, second_device

SIZES = {
    "mixed": [3, 0, 1, 2, 17, 18, 7, 7, 1],
    "equal": [6, 6, 6, 6],
    "one": [1],
    "empty_graphs": [0, 0],
    "no_graphs": [],
    "giant_and_tiny": [2, 40, 1],
}
ALL_SIZES = pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
KINDS = 5


def rings(sizes: list[int], token: bool = False) -> PairBlocks:
    """Rings whose last node is isolated; with ``token`` the first node of every graph is one."""
    blocks = [torch.empty(0, dtype=torch.uint8)]
    for size in sizes:
        node, ring = torch.arange(size), max(size - 1, 1)
        apart = (node[:, None] - node).abs()
        block = torch.minimum(apart, ring - apart).clamp(min=0)
        block[-1:], block[:, -1:] = 255, 255
        if token:
            block[:1], block[:, :1] = 254, 254
        blocks.append(block.fill_diagonal_(0).to(torch.uint8).view(-1))
    return PairBlocks(torch.cat(blocks), tuple(sizes))


def listed(blocks: PairBlocks, cutoff: int) -> tuple[HopNeighbors, Tensor]:
    """The same distances as lists, and the place of every listed pair in the blocks."""
    none = torch.empty(0, dtype=torch.int64)
    row, col, first = [none], [none], 0
    for size in blocks.sizes:
        row.append(first + torch.arange(size).repeat_interleave(size))
        col.append(first + torch.arange(size).repeat(size))
        first += size
    keep = ((blocks.distance <= cutoff) | (blocks.distance == 254)).nonzero().view(-1)
    rows = torch.cat(row)[keep]
    ptr = torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(rows, minlength=first).cumsum(0)])
    return HopNeighbors(ptr, torch.cat(col)[keep], blocks.distance[keep]), keep


def inputs_for(nodes: int, pairs: int, heads: int = 3, d: int = 5, e: int = 4) -> list[Tensor]:
    """q, k, v, the three tables of a relation, bias."""
    tables = [normal(KINDS, heads, width) for width in (d, d, e)]
    return [normal(nodes, heads, d), normal(nodes, heads, d), normal(nodes, heads, e), *tables, normal(pairs, heads)]


def call(ragged: Ragged, near: PairBlocks | HopNeighbors, index: Tensor, backend: str, **options) -> Callable:
    options = {"max_hops": (None, 1, 2), **options}

    def run(q: Tensor, k: Tensor, v: Tensor, *rest: Tensor) -> Tensor:
        known = {}
        if rest:
            known = {"relations": [Relation(index, *rest[:3]), Relation(index.flip(0), None, rest[1])], "bias": rest[3]}
        return focal_attention(q, k, v, ragged, near, backend=backend, **known, **options)

    return run


def test_by_hand() -> None:
    """The path 0 - 1 - 2: node 0 sees 1 and itself with scores 0 and ln 3 (bias), node 2 sees itself and 1 alike."""
    ragged = Ragged.from_sizes([3])
    near = PairBlocks(torch.tensor([0, 1, 2, 1, 0, 1, 2, 1, 0], dtype=torch.uint8), (3,))
    q = torch.zeros(3, 1, 1)
    v = torch.tensor([4.0, 8.0, 100.0]).view(3, 1, 1)
    bias = torch.zeros(9, 1)
    bias[1] = torch.tensor(3.0).log()
    value = torch.tensor([0.0, 10.0]).view(2, 1, 1)
    index = near.distance.clamp(max=1)
    for backend in ("reference", "cpu", "dense"):
        out = focal_attention(q, q, v, ragged, near, 1, bias=bias, backend=backend)
        torch.testing.assert_close(out.flatten(), torch.tensor([7.0, 112 / 3, 54.0]))
        with_values = focal_attention(
            q, q, v, ragged, near, 1, bias=bias, relations=[Relation(index, value=value)], backend=backend
        )
        torch.testing.assert_close((with_values - out).flatten(), torch.tensor([7.5, 20 / 3, 5.0]))


def test_key_term_has_the_key_of_the_row() -> None:
    ragged, near = Ragged.from_sizes([2]), PairBlocks(torch.tensor([0, 1, 1, 0], dtype=torch.uint8), (2,))
    q, k = torch.zeros(2, 1, 1), torch.tensor([0.0, 1.0]).view(2, 1, 1)
    v = torch.tensor([0.0, 4.0]).view(2, 1, 1)
    key = torch.tensor([0.0, 3.0]).log().clamp(min=0).view(2, 1, 1)
    for backend in ("reference", "cpu", "dense"):
        out = focal_attention(
            q, k, v, ragged, near, None, relations=[Relation(near.distance, key=key)], backend=backend
        )
        torch.testing.assert_close(out.flatten(), torch.tensor([2.0, 1.0]))


@ALL_SIZES
@pytest.mark.parametrize("backend", ["cpu", "dense"])
@pytest.mark.parametrize("unreachable", ["mask", "full"])
def test_equals_reference(sizes: list[int], backend: str, unreachable: str) -> None:
    ragged, near = Ragged.from_sizes(sizes), rings(sizes, token=unreachable == "full")
    pairs = near.distance.numel()
    index = torch.randint(KINDS, (pairs,), dtype=torch.uint8)
    inputs = inputs_for(ragged.num_rows, pairs)
    for some in (inputs, inputs[:3]):
        options = {"unreachable": unreachable}
        assert_same(
            call(ragged, near, index, backend, **options), call(ragged, near, index, "reference", **options), some
        )


@ALL_SIZES
@pytest.mark.parametrize("reach", [2, (1, 2, 2)])
def test_lists_equal_blocks(sizes: list[int], reach: int | tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "_NUMBERS", 100)
    ragged, near = Ragged.from_sizes(sizes), rings(sizes, token=True)
    hops, keep = listed(near, 3)
    index = torch.randint(KINDS, (near.distance.numel(),))
    inputs = inputs_for(ragged.num_rows, near.distance.numel())
    of_lists = [*inputs[:6], inputs[6].detach()[keep].requires_grad_()]
    blocks = call(ragged, near, index, "reference", max_hops=reach)
    found, expected = (call(ragged, hops, index[keep], backend, max_hops=reach) for backend in ("cpu", "reference"))
    assert_same(found, blocks, inputs[:3])
    assert_same(found, expected, of_lists)  # whose second relation reads the index backwards, so not as in blocks


@pytest.mark.parametrize("where", ["cpu", "second device"])
def test_dropout_of_lists_is_the_same_in_both_passes(where: str) -> None:
    """The output is linear in the values, <g, out(v)> = <grad v, v>; on a device the mask is drawn there."""
    sizes = [20, 3]
    hops, _ = listed(rings(sizes), 2)
    q, k, v = (normal(23, 3, width).detach().float() for width in (5, 5, 4))
    elsewhere = where != "cpu"
    with second_device() if elsewhere else nullcontext() as waits:
        device = DEVICE if elsewhere else torch.device("cpu")
        near, ragged = hops.to(device), Ragged.from_sizes(sizes, device)
        q, k, rows = q.to(device), k.to(device), v.to(device).requires_grad_()
        backend = "auto" if elsewhere else "cpu"
        whole = focal_attention(q, k, rows, ragged, near, 2, backend=backend)
        before = len(waits or ())
        out = focal_attention(q, k, rows, ragged, near, 2, dropout_p=0.5, backend=backend)
        assert len(waits or ()) == before, "the host waited, or drew the mask"
        g = torch.randn(out.shape).to(device)
        [grad] = torch.autograd.grad(out, rows, g)
        torch.testing.assert_close((grad * rows).sum().cpu(), (g * out).sum().cpu(), rtol=1e-4, atol=1e-4)
        other = focal_attention(q, k, rows, ragged, near, 2, dropout_p=0.5, backend=backend)
        assert not torch.allclose(out.cpu(), other.cpu()), "another mask at the next call"
        assert not torch.allclose(out.cpu(), whole.cpu())


def test_saturated_rows_of_lists_have_no_gradient() -> None:
    """Of a weight of exactly one: what is subtracted from its gradient is that gradient, to the last bit."""
    sizes = [20, 3]
    hops, keep = listed(rings(sizes), 2)
    q, k, v, _, _, value, _ = (x.detach().float() for x in inputs_for(23, len(keep)))
    rows, relation = (1e7 * q).requires_grad_(), Relation(torch.randint(KINDS, keep.shape), value=value)
    out = focal_attention(rows, k, v, Ragged.from_sizes(sizes), hops, 2, relations=[relation], backend="cpu")
    assert not torch.autograd.grad(out, rows, torch.randn_like(out))[0].any()


@pytest.mark.parametrize("block", [64, 1000])
def test_a_graph_larger_than_a_block_is_cut(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_PAIRS", block)
    sizes = [4, 60, 3]
    ragged, near = Ragged.from_sizes(sizes), rings(sizes)
    index = torch.randint(KINDS, (near.distance.numel(),))
    inputs = inputs_for(ragged.num_rows, near.distance.numel())
    assert_same(call(ragged, near, index, "cpu"), call(ragged, near, index, "reference"), inputs)


def test_heads_that_see_little_leave_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reach of 1 in a graph of 60 nodes is below the limit, one of 10 is not."""
    sizes = [4, 60, 3]
    ragged, near = Ragged.from_sizes(sizes), rings(sizes, token=True)
    index = torch.randint(KINDS, (near.distance.numel(),))
    inputs = inputs_for(ragged.num_rows, near.distance.numel())
    used = []
    kernel = lists.focal_attention
    monkeypatch.setattr(lists, "focal_attention", lambda *known: used.append(known[3].max_hops) or kernel(*known))
    for reach in ((None, 1, 1), (1, 10, 1), 1):
        assert_same(
            call(ragged, near, index, "cpu", max_hops=reach),
            call(ragged, near, index, "reference", max_hops=reach),
            inputs,
        )
    assert used == [(1, 1), (1,), (1,), (1, 1, 1)]


@pytest.mark.parametrize("kind", ["blocks", "lists"])
def test_gradcheck(kind: str) -> None:
    sizes = [3, 1, 4]
    ragged, near = Ragged.from_sizes(sizes), rings(sizes)
    hops, _ = listed(near, 2)
    scope, reach = (near, (None, 1)) if kind == "blocks" else (hops, (1, 1))
    pairs = near.distance.numel() if kind == "blocks" else hops.hop.numel()
    index = torch.randint(KINDS, (pairs,))
    inputs = inputs_for(8, pairs, heads=2, d=2, e=2)
    assert torch.autograd.gradcheck(call(ragged, scope, index, "cpu", max_hops=reach), inputs, fast_mode=True)


@pytest.mark.parametrize("kind", ["blocks", "lists"])
def test_single_precision(kind: str) -> None:
    sizes = [30, 5]
    ragged, near = Ragged.from_sizes(sizes), rings(sizes)
    hops, _ = listed(near, 4)
    scope = near if kind == "blocks" else hops
    pairs = near.distance.numel() if kind == "blocks" else hops.hop.numel()
    index = torch.randint(KINDS, (pairs,))
    runs = (call(ragged, scope, index, backend, max_hops=3) for backend in ("cpu", "reference"))
    assert_within_budget(*runs, inputs_for(35, pairs))


def test_limits_of_the_reach() -> None:
    """As far as the diameter: full attention. 0: the own value. No reach: full, whatever cannot be reached."""
    sizes = [9, 1, 4]
    ragged = Ragged.from_sizes(sizes)
    apart = rings(sizes)
    joined = PairBlocks(apart.distance.masked_fill(apart.distance == 255, 3), apart.sizes)
    q, k, v = inputs_for(14, 0)[:3]
    full = softmax_attention(q, k, v, ragged)
    for backend in ("reference", "cpu", "dense"):
        run = functools.partial(focal_attention, q, k, v, ragged, backend=backend)
        torch.testing.assert_close(run(joined, 4), full)
        torch.testing.assert_close(run(joined, 0), v)
        torch.testing.assert_close(run(apart, None), full)
        assert (run(apart, 4) - full).abs().max() > 1e-3
    torch.testing.assert_close(focal_attention(q, k, v, ragged, listed(joined, 4)[0], 4), full)


def test_graphs_do_not_see_each_other_and_order_does_not_matter() -> None:
    sizes = [6, 20, 5]
    ragged, near = Ragged.from_sizes(sizes), rings(sizes)
    q, k, v, *tables, bias = inputs_for(31, near.distance.numel())
    index = torch.randint(KINDS, (near.distance.numel(),))
    together = call(ragged, near, index, "cpu")(q, k, v, *tables, bias)
    pair, node = 36, slice(6, 26)
    alone = focal_attention(
        *(x[node] for x in (q, k, v)),
        Ragged.from_sizes([20]),
        rings([20]),
        (None, 1, 2),
        relations=[
            Relation(index[pair : pair + 400], *tables),
            Relation(index.flip(0)[pair : pair + 400], None, tables[1]),
        ],
        bias=bias[pair : pair + 400],
    )
    torch.testing.assert_close(together[node], alone)

    order = torch.randperm(20)
    of_pairs = (order[:, None] * 20 + order).view(-1)
    mixed = focal_attention(
        *(x[node][order] for x in (q, k, v)),
        Ragged.from_sizes([20]),
        PairBlocks(rings([20]).distance[of_pairs], (20,)),
        (None, 1, 2),
        relations=[
            Relation(index[pair : pair + 400][of_pairs], *tables),
            Relation(index.flip(0)[pair : pair + 400][of_pairs], None, tables[1]),
        ],
        bias=bias[pair : pair + 400][of_pairs],
    )
    torch.testing.assert_close(mixed, alone[order])


@pytest.mark.parametrize("kind", ["blocks", "lists"])
def test_dropout(kind: str) -> None:
    """Reproducible, with the gradient of the same draw, unbiased; nothing left at 1."""
    sizes = [12, 3]
    ragged, near = Ragged.from_sizes(sizes), rings(sizes)
    scope = near if kind == "blocks" else listed(near, 4)[0]
    hops = near.distance if kind == "blocks" else scope.hop
    index = hops.clamp(max=KINDS - 1)
    inputs = inputs_for(15, 0, heads=2)[:6]

    def run(p: float) -> Tensor:
        torch.manual_seed(0)
        q, k, v, *tables = inputs
        return focal_attention(q, k, v, ragged, scope, 3, relations=[Relation(index, *tables)], dropout_p=p)

    assert torch.equal(run(0.5), run(0.5))
    assert torch.autograd.gradcheck(lambda *_: run(0.5), inputs, fast_mode=True)
    assert run(1.0).abs().max() == 0
    torch.manual_seed(1)
    q, k = inputs[:2]
    ones = torch.ones(15, 2, 1, dtype=torch.float64)
    mean = torch.stack([focal_attention(q, k, ones, ragged, scope, 3, dropout_p=0.3) for _ in range(80)]).mean()
    assert abs(mean.item() - 1) < 0.03


def test_memory_of_lists_is_that_of_the_lists() -> None:
    """20,000 nodes: blocks would hold 4 10^8 pairs, the lists hold 10^5."""
    nodes = 20_000
    node = torch.arange(nodes)
    col = (node[:, None] + torch.arange(-2, 3)).remainder(nodes)
    hop = torch.tensor([2, 1, 0, 1, 2], dtype=torch.uint8).repeat(nodes)
    near = HopNeighbors(torch.arange(nodes + 1) * 5, col.view(-1), hop)
    q, k, v = (torch.randn(nodes, 2, 4, requires_grad=True) for _ in range(3))
    out = focal_attention(q, k, v, Ragged.from_sizes([nodes]), near, 1)
    out.sum().backward()
    scores = (q[:, None] * k[col[:, 1:4]]).sum(-1) / 2
    expected = (scores.softmax(1)[..., None] * v[col[:, 1:4]]).sum(1)
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_hops": -1}, "max_hops must lie"),
        ({"max_hops": (1, 2)}, "one per head"),
        ({"unreachable": "far"}, "unreachable"),
        ({"dropout_p": 2.0}, "dropout_p"),
        ({"bias": torch.zeros(3, 3)}, "bias must be"),
        ({"relations": [Relation(torch.zeros(10, dtype=torch.int64))]}, "needs query"),
        ({"relations": [Relation(torch.zeros(9), torch.zeros(2, 3, 5))]}, "index of a table"),
        ({"relations": [Relation(torch.zeros(10, dtype=torch.int64), torch.zeros(2, 3, 4))]}, "query of a table"),
        ({"distances": rings([2, 3])}, "sizes differ"),
        ({"distances": listed(rings([3, 1]), 2)[0], "max_hops": None}, "give every head its max_hops"),
        ({"distances": listed(rings([3]), 2)[0], "max_hops": 1}, "lists must be those"),
        ({"backend": "fast"}, "backend"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict, message: str) -> None:
    q, k, v = inputs_for(4, 0)[:3]
    options = {"distances": rings([3, 1]), "max_hops": 1, **changes}
    with pytest.raises(ValueError, match=message):
        focal_attention(q, k, v, Ragged.from_sizes([3, 1]), **options)


def test_lists_keep_their_precision_under_autocast() -> None:
    sizes = [20, 3]
    hops, keep = listed(rings(sizes), 2)
    q, k, v, *tables, _ = (x.detach().float() for x in inputs_for(23, len(keep)))
    relation = Relation(torch.randint(KINDS, keep.shape), *tables)
    ragged = Ragged.from_sizes(sizes)
    plain = focal_attention(q, k, v, ragged, hops, 2, relations=[relation], backend="cpu")
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(focal_attention(q, k, v, ragged, hops, 2, relations=[relation], backend="cpu"), plain)
