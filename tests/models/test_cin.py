"""CIN cell by cell from its equations, in float64: every message sent to every cell that hears it."""

from __future__ import annotations

from typing import Any

import networkx as nx
import pytest
import torch
from torch import Tensor

from graphbench.config import load_config
from graphbench.errors import UserError
from graphbench.factory.model import build_model
from graphbench.models.cell_complex import SETS
from graphbench.models.cin import CIN, ComplexSettings
from graphbench.structures import DataInfo, GraphBatch
from graphbench.transforms.algorithms.cache import with_outputs
from graphbench.transforms.cell_complex import RingEdges, Rings, UndirectedEdges
from tests.contract import shaken
from tests.models.ego_net_graphs import graphs_of, normed
from tests.paths import ROOT

DIM, SIZES = 6, (9, 1, 12, 2)


def build(name: str = "ogb/cin-molhiv", **own: Any) -> Any:
    info = DataInfo("molecules", "graph", "classification", 9, 3, 1, "auc", maximize=True)
    if "zinc" in name:
        info = DataInfo("molecules", "graph", "regression", 1, 1, 1, "mae", maximize=False)
    overrides = [str(each) for pair in {"gnn.dim_inner": DIM, **own}.items() for each in pair]
    return shaken(build_model(load_config(ROOT / f"configs/{name}.yaml", overrides), info).double()).eval()


def molecules(longest: int, **types: Any) -> Any:
    store = graphs_of(SIZES, **types)
    transforms = {"UndirectedEdges": UndirectedEdges(), "Rings": Rings(longest), "RingEdges": RingEdges(longest)}
    return with_outputs(store, transforms, {name: each(store) for name, each in transforms.items()})


def mapped(module: Any, x: Tensor) -> Tensor:
    """relu(BN(W x + b)), once or twice."""
    for linear, norm, _ in zip(*[iter(module)] * 3, strict=True):
        x = normed(norm, linear(x)).relu()
    return x


def plain(model: Any, graph: GraphBatch, longest: int, pool: str) -> Tensor:
    """Prediction of one graph, from cells as sets of nodes."""
    h, e = model.encoder(graph)[0], model.edge_encoder(graph)
    ends = [tuple(pair) for pair in graph.edge_index.T.tolist()]
    found = nx.Graph(ends)
    cycles = [list(each) for each in nx.chordless_cycles(found, length_bound=longest)]
    cells: list[list[Any]] = [
        list(range(graph.num_nodes)),
        [frozenset(each) for each in found.edges],
        [frozenset(each) for each in cycles],
    ]
    boundary: dict[Any, list[Any]] = {edge: list(edge) for edge in cells[1]}
    for ring, around in zip(cells[2], cycles, strict=True):
        boundary[ring] = [frozenset(pair) for pair in zip(around, around[1:] + around[:1], strict=True)]
    x = dict(enumerate(h))
    x |= {edge: (e[ends.index((a, b))] + e[ends.index((b, a))]) / 2 for edge in cells[1] for a, b in [tuple(edge)]}
    x |= {ring: sum(h[v] for v in ring) for ring in cells[2]}
    for layer in model.layers:
        new = {}
        for d, of_dimension in enumerate(cells):
            for c in of_dimension:
                above, below = x[c], x[c]
                for a in boundary.get(c, []):
                    below = below + x[a]
                for f in cells[d + 1] if d < 2 else []:
                    for a in boundary[f] if c in boundary[f] else []:
                        if a != c:
                            above = above + layer.messages[d](torch.cat([x[a], x[f]])).relu()
                both = [mapped(layer.from_above[d], above), mapped(layer.from_boundary[d], below)]
                new[c] = mapped(layer.join[d], torch.cat(both))
        x = new
    total = torch.zeros(2 * DIM, dtype=torch.float64)
    for linear, of_dimension in zip(model.maps, cells, strict=True):
        states = torch.stack([x[c] for c in of_dimension]) if of_dimension else torch.zeros(1, DIM).double()
        total = total + linear(states.mean(0) if pool == "mean" else states.sum(0)).relu()
    return model.head.mlp(total[None])


@pytest.mark.parametrize(("name", "longest", "pool"), [("ogb/cin-molhiv", 6, "mean"), ("gnnbench/cin-zinc", 8, "add")])
def test_the_model_is_its_equations(name: str, longest: int, pool: str) -> None:
    model = build(name, **{"gt.CIN.longest_ring": longest, "gt.CIN.pool": pool})
    store = molecules(longest, **({"node_types": (21,), "edge_types": (4,)} if "zinc" in name else {}))
    assert store.edge_sets["Rings"].num_pairs > 4
    with torch.no_grad():
        expected = [plain(model, store.gather([graph]), longest, pool) for graph in range(len(SIZES))]
        received = model(store.gather(range(len(SIZES))))
        torch.testing.assert_close(received, torch.cat(expected), rtol=1e-10, atol=1e-10)


def test_edges_without_states_are_the_sum_of_their_nodes() -> None:
    model = build(**{"dataset.edge_encoder": False})
    batch = molecules(6).gather(range(len(SIZES)))
    h = model.encoder(batch)[0]
    edges = batch.edge_sets["UndirectedEdges"].index
    first = []
    model.layers[0].register_forward_pre_hook(lambda module, inputs: first.append(inputs[0]))
    model(batch)
    received = first[0][len(h) : len(h) + edges.shape[1]]
    torch.testing.assert_close(received, h[edges[0]] + h[edges[1]], rtol=1e-12, atol=1e-12)


def test_cells_are_asked_for_and_needed() -> None:
    rings = {"longest": 18}
    asked = {"UndirectedEdges": {}, "Rings": rings, "RingEdges": rings}
    assert CIN.required_transforms({"longest_ring": 18}) == asked
    batch = molecules(6).gather([0])
    for name in SETS:
        kept = {key: value for key, value in batch.edge_sets.items() if key != name}
        with pytest.raises(ValueError, match="read the edge sets UndirectedEdges, Rings, RingEdges"):
            build()(batch.replace(edge_sets=kept))


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"gt.CIN.longest_ring": 2}, "longest_ring must be at least 3, received 2"),
        ({"gnn.layers_mp": 0}, "layers must be at least 1, received 0"),
        ({"gnn.dim_edge": 4}, "edges are cells as wide as nodes, received 4 and 6"),
    ],
)
def test_wrong_values_are_named(own: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        build(**own)


def test_wrong_pool_in_python() -> None:
    with pytest.raises(ValueError, match="pool must be one of add, mean; received 'max'"):
        ComplexSettings(pool="max").check()  # type: ignore[arg-type]
