"""Example batches and the checks that every component has to pass, whatever room it lies in.

A check works on a :class:`Subject`: a module and the way it is called on a batch. Tests of layers, encoders, heads
and models share the graphs and the checks from here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from graphbench.structures import EdgeSet, GraphBatch, PairBlocks, Ragged
from tests.second_device import DEVICE, second_device, triton_stubbed

SIZES = (7, 1, 12, 2, 5)


@dataclass(frozen=True)
class Subject:
    """What is tested.

    Attributes:
        module: in float64 where tolerances matter; parameters away from special values (:func:`shaken`).
        call: ``(module, batch) -> outputs by name``.
        level: for every output whether its rows are ``"node"``, ``"edge"`` or ``"graph"``.
        width: columns of every output.
    """

    module: nn.Module
    call: Callable[[nn.Module, GraphBatch], Mapping[str, Tensor]]
    level: Mapping[str, str]
    width: Mapping[str, int]

    def __call__(self, batch: GraphBatch) -> Mapping[str, Tensor]:
        return self.call(self.module, batch)


def example_batch(
    sizes: Iterable[int] = SIZES,
    *,
    node_dim: int = 12,
    edge_dim: int = 12,
    node_types: tuple[int, ...] | None = None,
    edge_types: tuple[int, ...] | None = None,
    pe: Mapping[str, tuple[int, ...]] | None = None,
    edges: bool = True,
    pairs: bool = True,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
) -> GraphBatch:
    """Random graphs with both directions of every edge, shuffled inside a graph.

    From 3 nodes on the last node is isolated, from 10 nodes on a graph falls into two components.

    Args:
        sizes: nodes per graph; 0 and an empty sequence are legal.
        node_dim: columns of floating ``x`` (0: no ``x``).
        edge_dim: columns of floating ``edge_attr`` (0: none).
        node_types: categories per column of an int64 ``x`` instead.
        edge_types: categories per column of an int64 ``edge_attr`` instead.
        pe: trailing shapes of node-wise encodings by name, filled with random numbers.
        edges: False leaves every graph without edges.
        pairs: attach shortest-path distances.
        dtype: of floating fields.
        seed: of everything random.
    """
    sizes, random = tuple(sizes), np.random.default_rng(seed)
    parts = [_edges(n, random) if edges else np.empty((2, 0), dtype=np.int64) for n in sizes]
    starts = np.cumsum((0, *sizes))
    edge_index = np.concatenate([np.empty((2, 0), np.int64), *(p + s for p, s in zip(parts, starts))], axis=1)
    nodes, count = sum(sizes), edge_index.shape[1]

    def columns(rows: int, width: int, types: tuple[int, ...] | None) -> Tensor | None:
        if types is not None:
            return torch.from_numpy(np.stack([random.integers(n, size=rows) for n in types], axis=1))
        return torch.from_numpy(random.standard_normal((rows, width))).to(dtype) if width else None

    distance = [_distances(n, part) for n, part in zip(sizes, parts)] if pairs else []
    return GraphBatch(
        ragged=Ragged.from_sizes(sizes),
        edge_index=torch.from_numpy(edge_index),
        x=columns(nodes, node_dim, node_types),
        edge_attr=columns(count, edge_dim, edge_types),
        pe={
            name: torch.from_numpy(random.standard_normal((nodes, *shape))).to(dtype)
            for name, shape in (pe or {}).items()
        },
        pairs=PairBlocks(torch.from_numpy(np.concatenate([np.empty(0, np.uint8), *distance])), sizes)
        if pairs
        else None,
    )


def alone(batch: GraphBatch, graph: int) -> GraphBatch:
    """One graph of a batch as a batch of its own."""
    first, last = int(batch.ragged.ptr[graph]), int(batch.ragged.ptr[graph + 1])
    rows, edges = slice(first, last), edges_of(batch, graph)

    def take(value: Tensor | None, index: slice | Tensor) -> Tensor | None:
        return None if value is None else value[index]

    return GraphBatch(
        ragged=Ragged.from_sizes([last - first]),
        edge_index=batch.edge_index[:, edges] - first,
        x=take(batch.x, rows),
        edge_attr=take(batch.edge_attr, edges),
        pe={name: value[rows] for name, value in batch.pe.items()},
        edge_pe={name: value[edges] for name, value in batch.edge_pe.items()},
        pair_pe={name: value[_pairs_of(batch, graph)] for name, value in batch.pair_pe.items()},
        edge_sets={name: _set_of(each, graph, first) for name, each in batch.edge_sets.items()},
        pairs=None if batch.pairs is None else PairBlocks(batch.pairs.block(graph).reshape(-1), (last - first,)),
    )


def _pairs_of(batch: GraphBatch, graph: int) -> slice:
    squares = np.cumsum([0, *(size * size for size in batch.ragged.sizes)])
    return slice(int(squares[graph]), int(squares[graph + 1]))


def _set_of(edges: EdgeSet, graph: int, first: int) -> EdgeSet:
    a, b = int(edges.ptr[graph]), int(edges.ptr[graph + 1])
    attr = None if edges.attr is None else edges.attr[a:b]
    return EdgeSet(edges.index[:, a:b] - first, torch.tensor([0, b - a]), attr)


def edges_of(batch: GraphBatch, graph: int) -> Tensor:
    """(E,) bool, edges of one graph."""
    return batch.ragged.graph_id[batch.edge_index[0]] == graph


def permutations(batch: GraphBatch, seed: int = 1) -> tuple[Tensor, Tensor]:
    """A random order of the nodes inside every graph, and of the edges inside every graph."""
    random = np.random.default_rng(seed)
    edge_graph = batch.ragged.graph_id[batch.edge_index[0]].numpy()
    node = np.lexsort((random.random(batch.num_nodes), batch.ragged.graph_id.numpy()))
    edge = np.lexsort((random.random(batch.num_edges), edge_graph))
    return torch.from_numpy(node), torch.from_numpy(edge)


def permuted(batch: GraphBatch, perm: Tensor, edge_perm: Tensor | None = None) -> GraphBatch:
    """The same graphs with other node numbers.

    Args:
        batch: the batch.
        perm: (N,) new row i is old row ``perm[i]``; stays inside graphs.
        edge_perm: (E,) the same for edges; None keeps their order.
    """
    edge_perm = torch.arange(batch.num_edges) if edge_perm is None else edge_perm
    new_number = torch.empty_like(perm)
    new_number[perm] = torch.arange(len(perm))
    pair_perm = []
    for graph, size in enumerate(batch.ragged.sizes):
        first = int(batch.ragged.ptr[graph])
        order = perm[first : first + size] - first
        pair_perm.append(_pairs_of(batch, graph).start + (order[:, None] * size + order[None, :]).reshape(-1))
    pair_order = torch.cat([torch.empty(0, dtype=torch.int64), *pair_perm])
    return GraphBatch(
        ragged=batch.ragged,
        edge_index=new_number[batch.edge_index[:, edge_perm]],
        x=None if batch.x is None else batch.x[perm],
        edge_attr=None if batch.edge_attr is None else batch.edge_attr[edge_perm],
        pe={name: value[perm] for name, value in batch.pe.items()},
        edge_pe={name: value[edge_perm] for name, value in batch.edge_pe.items()},
        pair_pe={name: value[pair_order] for name, value in batch.pair_pe.items()},
        edge_sets={
            name: EdgeSet(new_number[each.index], each.ptr, each.attr) for name, each in batch.edge_sets.items()
        },
        pairs=None if batch.pairs is None else PairBlocks(batch.pairs.distance[pair_order], batch.ragged.sizes),
    )


def shaken(module: nn.Module, seed: int = 0) -> nn.Module:
    """Moves parameters and running statistics away from 0 and 1, where forgotten terms do not show."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
        for name, buffer in module.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                buffer.add_(0.3 * torch.rand(buffer.shape, generator=generator, dtype=buffer.dtype))
    return module


def check_outputs(subject: Subject, batch: GraphBatch) -> None:
    """Shapes as announced, type of the parameters, nothing infinite; in training and in evaluation."""
    for training in (True, False):
        subject.module.train(training)
        outputs = subject(batch)
        assert set(outputs) == set(subject.level)
        rows = {"node": batch.num_nodes, "edge": batch.num_edges, "graph": batch.num_graphs}
        for name, value in outputs.items():
            assert value.shape == (rows[subject.level[name]], subject.width[name]), name
            assert torch.isfinite(value).all(), f"{name} is not finite (training={training})"


def check_batch_independence(subject: Subject, batch: GraphBatch, tolerance: float = 1e-10) -> None:
    """In evaluation a graph's outputs are the same alone and in company."""
    subject.module.eval()
    together = subject(batch)
    for graph in range(batch.num_graphs):
        for name, value in subject(alone(batch, graph)).items():
            expected = _rows_of(together[name], batch, graph, subject.level[name])
            _assert_close(value, expected, tolerance, f"{name} of graph {graph} depends on its batch-mates")


def check_permutation(subject: Subject, batch: GraphBatch, tolerance: float = 1e-10) -> None:
    """Other node numbers permute node outputs, other edge order edge outputs; graph outputs stay."""
    subject.module.eval()
    node, edge = permutations(batch)
    before, after = subject(batch), subject(permuted(batch, node, edge))
    order = {"node": node, "edge": edge, "graph": torch.arange(batch.num_graphs)}
    for name, level in subject.level.items():
        _assert_close(after[name], before[name][order[level]], tolerance, f"{name} depends on the numbering")


def check_gradients(subject: Subject, batch: GraphBatch, without: frozenset[str] = frozenset()) -> None:
    """Every parameter gets a finite gradient, and every matrix one that is not zero.

    Args:
        subject: what is tested.
        batch: with at least one edge.
        without: parameters that get none by design (the norm of a missing branch).
    """
    subject.module.eval()
    subject.module.zero_grad(set_to_none=True)
    loss = sum(
        (value * torch.cos(torch.arange(value.numel())).view_as(value)).sum() for value in subject(batch).values()
    )
    loss.backward()
    for name, parameter in subject.module.named_parameters():
        if name in without:
            assert parameter.grad is None, f"{name} should get no gradient"
            continue
        assert parameter.grad is not None, f"no gradient reaches {name}"
        assert torch.isfinite(parameter.grad).all(), f"the gradient of {name} is not finite"
        if parameter.dim() > 1:
            assert parameter.grad.abs().max() > 0, f"the gradient of {name} is zero"
    subject.module.zero_grad(set_to_none=True)


def check_corner_cases(subject: Subject, example: Callable[..., GraphBatch] = example_batch) -> None:
    """No graphs, empty graphs, one node, no edges: shapes fit, values and gradients are finite.

    Args:
        subject: what is tested.
        example: like :func:`example_batch`, called with ``sizes`` and ``edges``.
    """
    for sizes, edges in (((), True), ((0,), True), ((0, 3, 0), True), ((1,), True), ((4, 3), False), ((2, 1), False)):
        batch = example(sizes, edges=edges)
        check_outputs(subject, batch)
        for training in (True, False):
            subject.module.train(training)
            subject.module.zero_grad(set_to_none=True)
            total = sum(value.sum() for value in subject(batch).values())
            if total.requires_grad:
                total.backward()
            for name, parameter in subject.module.named_parameters():
                finite = parameter.grad is None or torch.isfinite(parameter.grad).all()
                assert finite, f"gradient of {name} for sizes {sizes}, edges={edges}, training={training}"
    subject.module.zero_grad(set_to_none=True)


def check_untouched(subject: Subject, batch: GraphBatch) -> None:
    """Forward and backward leave the batch as it was."""
    before = {name: value.clone() for name, value in tensors_of(batch)}
    subject.module.train()
    sum(value.sum() for value in subject(batch).values()).backward()
    subject.module.zero_grad(set_to_none=True)
    after = dict(tensors_of(batch))
    assert after.keys() == before.keys()
    for name, value in before.items():
        assert torch.equal(value, after[name]), f"{name} of the batch was modified"


def check_state_dict(subject: Subject, batch: GraphBatch) -> None:
    """All state is in the state_dict: a copy with other parameters gives the same outputs after loading."""
    other = Subject(shaken(copy.deepcopy(subject.module), seed=5), subject.call, subject.level, subject.width)
    other.module.load_state_dict(subject.module.state_dict())
    subject.module.eval()
    other.module.eval()
    before, after = subject(batch), other(batch)
    for name, value in before.items():
        assert torch.equal(value, after[name]), name


def check_determinism(subject: Subject, batch: GraphBatch) -> None:
    """In training one seed gives one result, outputs and gradients, bit for bit."""
    subject.module.train()
    state = copy.deepcopy(subject.module.state_dict())
    results = []
    for _ in range(2):
        subject.module.load_state_dict(state)
        subject.module.zero_grad(set_to_none=True)
        torch.manual_seed(11)
        outputs = subject(batch)
        sum((value * value).sum() for value in outputs.values()).backward()
        gradients = [p.grad.clone() for p in subject.module.parameters() if p.grad is not None]
        results.append([value.detach() for value in outputs.values()] + gradients)
    subject.module.load_state_dict(state)
    subject.module.zero_grad(set_to_none=True)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def check_second_device(subject: Subject, batch: GraphBatch) -> None:
    """On a device that is not the host: same outputs and gradients, and the second time the host waits for nothing."""
    subject.module.eval()
    there = Subject(copy.deepcopy(subject.module), subject.call, subject.level, subject.width)
    with second_device() as waits:
        there.module.to(DEVICE)
        batch_there = batch.to(DEVICE)
        with triton_stubbed():
            for _ in range(2):
                waits.clear()
                _with_gradients(there, batch_there)
            assert not waits
        outputs_there = _with_gradients(there, batch_there)
        found = {name: value.cpu() for name, value in outputs_there.items()}
    expected = _with_gradients(subject, batch)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        _assert_close(found[name], value, 1e-10, f"{name} differs on another device")


def _with_gradients(subject: Subject, batch: GraphBatch) -> dict[str, Tensor]:
    subject.module.zero_grad(set_to_none=True)
    torch.manual_seed(11)
    outputs = subject(batch)
    sum((value * value).sum() for value in outputs.values()).backward()
    found = {f"gradient of {name}": p.grad for name, p in subject.module.named_parameters() if p.grad is not None}
    found |= {name: value.detach() for name, value in outputs.items()}
    subject.module.zero_grad(set_to_none=True)
    return found


CHECKS: dict[str, Callable[[Subject, GraphBatch], None]] = {
    "outputs": check_outputs,
    "batch_independence": check_batch_independence,
    "permutation": check_permutation,
    "gradients": check_gradients,
    "untouched": check_untouched,
    "state_dict": check_state_dict,
    "determinism": check_determinism,
    "second_device": check_second_device,
}


def _rows_of(value: Tensor, batch: GraphBatch, graph: int, level: str) -> Tensor:
    if level == "graph":
        return value[graph : graph + 1]
    if level == "edge":
        return value[edges_of(batch, graph)]
    return value[int(batch.ragged.ptr[graph]) : int(batch.ragged.ptr[graph + 1])]


def _assert_close(value: Tensor, expected: Tensor, tolerance: float, message: str) -> None:
    assert value.shape == expected.shape, message
    if value.numel():
        error = ((value - expected).abs().max() / expected.abs().max().clamp(min=1)).item()
        assert error <= tolerance, f"{message}: relative difference {error:.1e}"


def tensors_of(batch: GraphBatch) -> list[tuple[str, Tensor]]:
    """What a batch consists of, by name."""
    fields = [(name, getattr(batch, name)) for name in ("edge_index", "x", "edge_attr", "y")]
    fields += [("ragged.ptr", batch.ragged.ptr), *((f"pe.{name}", value) for name, value in batch.pe.items())]
    fields += [(f"pair_pe.{name}", value) for name, value in batch.pair_pe.items()]
    fields += [(f"edge_pe.{name}", value) for name, value in batch.edge_pe.items()]
    for name, each in batch.edge_sets.items():
        fields += [(f"{name}.index", each.index), (f"{name}.ptr", each.ptr), (f"{name}.attr", each.attr)]
    if batch.pairs is not None:
        fields.append(("pairs.distance", batch.pairs.distance))
    return [(name, value) for name, value in fields if value is not None]


def _edges(n: int, random: np.random.Generator) -> np.ndarray:
    """A path per component and some chords, both directions, shuffled."""
    linked = n - 1 if n > 2 else n
    half = linked // 2 if n >= 10 else linked
    pairs = {(i, i + 1) for i in range(linked - 1) if i + 1 != half or half == linked}
    for _ in range(linked):
        a, b = sorted(random.integers(0, linked, 2)) if linked else (0, 0)
        if a != b and (a < half) == (b < half):
            pairs.add((int(a), int(b)))
    one_way = np.asarray(sorted(pairs), dtype=np.int64).reshape(-1, 2).T
    both = np.concatenate([one_way, one_way[::-1]], axis=1)
    return both[:, random.permutation(both.shape[1])]


def _distances(n: int, edge_index: np.ndarray) -> np.ndarray:
    """Flat uint8 shortest-path distances, 255 where there is no path."""
    step = np.zeros((n, n), dtype=bool)
    step[edge_index[0], edge_index[1]] = True
    distance = np.where(np.eye(n, dtype=bool), 0, 255).astype(np.uint8)
    reached = np.eye(n, dtype=bool)
    for hops in range(1, min(n, 255)):
        new = (reached @ step) & (distance == 255)
        distance[new] = hops
        reached |= new
    return distance.ravel()
