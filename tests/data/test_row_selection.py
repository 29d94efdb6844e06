"""Every field of a gathered batch against graphs put behind each other one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from graphbench.data import row_selection
from graphbench.data.store import GraphStore, StoredEdges, StoredHops
from graphbench.structures import GraphBatch

SIZES = [3, 0, 5, 1, 4, 0, 2]
CHOSEN = [
    [0],
    [1],
    [2],
    list(range(7)),
    [2, 3, 4],
    [5, 2, 0],
    [4, 4, 2],
    [3, 2, 1],
    [6, 1, 5],
    [1, 5],
    [],
    [0, 2, 4, 6],
]


def _offsets(counts: Tensor) -> Tensor:
    return torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])


def _per_node(generator: torch.Generator, most: int) -> tuple[Tensor, Tensor]:
    """(counts per graph, second ends): up to ``most`` pairs per node, graph by graph; none in an empty graph."""
    counts = torch.tensor([int(torch.randint(0, most * n + 1, (), generator=generator)) for n in SIZES])
    ends = [torch.randint(0, max(n, 1), (2, int(c)), generator=generator) for n, c in zip(SIZES, counts, strict=True)]
    return counts, torch.cat(ends, dim=1)


def full_store(level: str) -> GraphStore:
    """Random graphs with everything that a store can hold, some of it narrow."""
    generator = torch.Generator().manual_seed(0)
    sizes = torch.tensor(SIZES)
    nodes, pairs = int(sizes.sum()), int(sizes.square().sum())

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    edges, index = _per_node(generator, 3)
    asked, label = _per_node(generator, 2)
    near = torch.cat([torch.randint(0, n + 1, (n,), generator=generator) for n in SIZES])
    col = torch.cat(
        [
            torch.randint(0, n, (int(near[first : first + n].sum()),), generator=generator)
            for n, first in zip(SIZES, _offsets(sizes).tolist(), strict=False)
            if n
        ]
    )
    count = {"graph": len(SIZES), "node": nodes, "pair": int(asked.sum())}[level]
    store = GraphStore.from_arrays(
        SIZES,
        edges,
        index,
        x=torch.randint(0, 9, (nodes, 2), generator=generator).to(torch.uint8),
        edge_attr=random(index.shape[1], 3),
    )
    store = store.replace(
        edge_sets={"label": StoredEdges(_offsets(asked), label.to(torch.int32), random(label.shape[1]))},
        y=torch.randint(0, 9, (count,), generator=generator).to(torch.int16),
        y_level=level,
    )
    return store.with_encodings(
        pe={"a": random(nodes, 2), "b": random(nodes).to(torch.bfloat16)},
        edge_pe={"c": random(index.shape[1], 1)},
        pair_pe={"d": random(pairs, 2)},
        pairs=torch.randint(0, 255, (pairs,), generator=generator).to(torch.uint8),
        hops=StoredHops(_offsets(near), col.to(torch.int32), torch.randint(0, 4, (len(col),)).to(torch.uint8)),
    )


def one_by_one(store: GraphStore, chosen: list[int]) -> dict[str, Tensor]:
    """What a batch has to hold, written as a loop over the graphs."""
    parts: dict[str, list[Tensor]] = {}

    def add(name: str, value: Tensor) -> None:
        parts.setdefault(name, []).append(value)

    node, edge, label = store.node_ptr, store.edge_ptr, store.edge_sets["label"]
    pair, hops = _offsets(store.sizes.square()), store.hops
    first = listed = 0
    for g in chosen:
        nodes, edges = slice(node[g], node[g + 1]), slice(edge[g], edge[g + 1])
        pairs, asked = slice(pair[g], pair[g + 1]), slice(label.ptr[g], label.ptr[g + 1])
        near = slice(hops.row_ptr[node[g]], hops.row_ptr[node[g + 1]])
        add("edge_index", store.edge_index[:, edges].long() + first)
        add("x", store.x[nodes].long())
        add("edge_attr", store.edge_attr[edges])
        add("y", store.y[{"graph": slice(g, g + 1), "node": nodes, "pair": asked}[store.y_level]].long())
        for name in ("a", "b"):
            add(f"pe.{name}", store.pe[name][nodes])
        add("edge_pe.c", store.edge_pe["c"][edges])
        add("pair_pe.d", store.pair_pe["d"][pairs])
        add("pairs", store.pairs[pairs])
        add("label.index", label.index[:, asked].long() + first)
        add("label.attr", label.attr[asked])
        earlier = sum(len(values) for values in parts["label.attr"][:-1])
        add("label.ptr", label.ptr[g + 1 : g + 2] - label.ptr[g] + earlier)
        add("hops.row_ptr", hops.row_ptr[nodes] - near.start + listed)
        add("hops.col", hops.col[near].long() + first)
        add("hops.hop", hops.hop[near])
        first += SIZES[g]
        listed += int(near.stop - near.start)
    joined = {
        name: torch.cat(values, dim=values[0].dim() - 1 if "index" in name else 0) for name, values in parts.items()
    }
    if chosen:
        joined["label.ptr"] = torch.cat([torch.zeros(1, dtype=torch.int64), joined["label.ptr"]])
        joined["hops.row_ptr"] = torch.cat([joined["hops.row_ptr"], torch.tensor([listed])])
    return joined


def contents(batch: GraphBatch) -> dict[str, Tensor]:
    """All tensors of a batch by the names of :func:`one_by_one`."""
    named: dict[str, Any] = {name: getattr(batch, name) for name in ("edge_index", "x", "edge_attr", "y")}
    for group in ("pe", "edge_pe", "pair_pe"):
        named |= {f"{group}.{name}": value for name, value in getattr(batch, group).items()}
    label, hops = batch.edge_sets["label"], batch.hops
    named |= {
        "pairs": batch.pairs.distance,
        "label.index": label.index,
        "label.attr": label.attr,
        "label.ptr": label.ptr,
    }
    return named | {"hops.row_ptr": hops.row_ptr, "hops.col": hops.col, "hops.hop": hops.hop}


@pytest.fixture(params=["host", "device"])
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to do the arithmetic; what is meant for a device runs on the host just as well."""
    if request.param == "device":
        monkeypatch.setattr(row_selection, "_is_host", lambda device: False)
    return request.param


@pytest.mark.parametrize("level", ["graph", "node", "pair"])
@pytest.mark.parametrize("chosen", CHOSEN, ids=str)
def test_a_batch_is_its_graphs_one_by_one(level: str, chosen: list[int], where: str) -> None:
    store = full_store(level)
    batch = store.gather(chosen)
    found, expected = contents(batch), one_by_one(store, chosen)
    assert batch.ragged.sizes == tuple(SIZES[g] for g in chosen)
    assert batch.ragged.ptr.tolist() == [0, *np.cumsum([SIZES[g] for g in chosen]).tolist()]
    if not chosen:
        assert batch.edge_index.shape == (2, 0)
        assert batch.edge_sets["label"].ptr.tolist() == batch.hops.row_ptr.tolist() == [0]
        assert all(value.shape[0] == 0 for name, value in found.items() if "index" not in name and "ptr" not in name)
        return
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=0, msg=lambda text, name=name: f"{name}: {text}")


def test_both_ways_give_the_same_index(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = row_selection.GraphSelection(np.array([1, 0, 2, 1]), torch.device("cpu"))
    ptr = np.array([0, 2, 5, 5])
    expected = [2, 3, 4, 0, 1, 2, 3, 4]
    assert chosen.rows(ptr).index.tolist() == expected
    monkeypatch.setattr(row_selection, "_is_host", lambda device: False)
    assert chosen.rows(ptr).index.tolist() == expected


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("chosen", CHOSEN, ids=str)
def test_batches_gathered_on_the_gpu_equal_those_of_the_host(chosen: list[int]) -> None:
    store = full_store("pair")
    resident = store.to("cuda")
    assert resident.node_ptr.device.type == "cpu"
    batch = resident.gather(chosen)
    expected = contents(store.gather(chosen))
    for name, value in contents(batch).items():
        assert value.device.type == "cuda", name
        torch.testing.assert_close(value.cpu(), expected[name], rtol=0, atol=0)


def test_a_moved_store_keeps_its_fingerprint_and_its_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    store = full_store("node")
    fingerprint = store.fingerprint
    moved = store.to("cpu")
    monkeypatch.setattr("graphbench.data.store.digest", lambda tensors: pytest.fail("computed again"))
    assert moved.fingerprint == fingerprint
    assert moved.nbytes == store.nbytes > sum(tensor.numel() for tensor in (store.x, store.edge_index))
    torch.testing.assert_close(contents(moved.gather([2, 0])), contents(store.gather([2, 0])))
