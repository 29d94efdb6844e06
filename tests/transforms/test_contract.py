"""What every transform has to declare and keep to; a new one is found by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from graphbench import registry
from graphbench.data.generators import BlockModel, sbm_cluster
from graphbench.data.store import GraphStore
from graphbench.transforms.algorithms.cache import apply, describe
from graphbench.transforms.algorithms.dense_blocks import StackTransform
from graphbench.transforms.base import Input, Transform

ARGUMENTS: dict[str, dict[str, Any]] = {  # of transforms that cannot do without
    "RandomWalkSE": {"times": [1, 3]},
    "RandomWalkEdgeSE": {"times": [1, 3]},
    "HeatKernelSE": {"times": [0.5, 3]},
    "Wavelets": {"scales": [0.5, 3]},
    "Hierarchy": {"coarsening": [0.5], "method": "rcm"},
    "HierarchyPairs": {"coarsening": [0.5], "method": "rcm"},
    "GraphormerPaths": {"num_spatial_types": 4, "num_in_degrees": 20, "num_out_degrees": 20},
}
NAMES = registry.names("transforms")


def transform_of(name: str) -> Transform:
    built: Transform = registry.lookup("transforms", name)(**ARGUMENTS.get(name, {}))
    return built


def example() -> GraphStore:
    store = sbm_cluster((6,), 0, base=BlockModel(2, 6, 7, 0.7, 0.3))
    return store.replace(edge_attr=torch.arange(store.num_edges).remainder(3).unsqueeze(1))


@pytest.mark.parametrize("name", NAMES)
def test_it_keeps_its_arguments_and_fits_the_store(name: str, tmp_path: Path) -> None:
    transform = transform_of(name)
    described = describe(transform)
    assert described["transform"] == transform.registered_name == name
    assert set(described["arguments"]) == set(registry.parameters(type(transform)))
    assert isinstance(described["version"], int)
    assert set(transform(example())) <= set(transform.outputs)
    store = apply(example(), {"T": transform}, tmp_path)  # a store refuses encodings of other lengths
    batch = store.gather([2, 0])
    there = {
        "node": batch.pe,
        "edge": batch.edge_pe,
        "pair": batch.pairs or batch.pair_pe,
        "edge_set": batch.edge_sets,
        "hops": batch.hops,
    }
    assert [level for level, values in there.items() if values] == [transform.level]
    again = apply(example(), {"T": transform_of(name)}, tmp_path, pytest.fail)
    assert again.pe.keys() == store.pe.keys()
    assert again.edge_pe.keys() == store.edge_pe.keys()


@pytest.mark.parametrize("name", NAMES)
def test_graphs_without_nodes_or_edges(name: str, tmp_path: Path) -> None:
    transform = transform_of(name)
    edges = torch.tensor([[0, 1], [1, 0]])
    store = GraphStore.from_arrays([0, 1, 3, 0], [0, 0, 2, 0], edges, x=torch.ones(4, 2))
    batch = apply(store, {"T": transform}, tmp_path).gather([3, 2, 1])
    for values in (*batch.pe.values(), *batch.edge_pe.values()):
        # LaplacianPE marks eigenpairs that a graph does not have
        assert values.isfinite().all() or name == "LaplacianPE"
    nothing = GraphStore.from_arrays([], [], torch.empty(2, 0), x=torch.empty(0, 2))
    assert apply(nothing, {"T": transform}, tmp_path).num_graphs == 0


@pytest.mark.parametrize("name", NAMES)
def test_the_place_of_a_graph_in_a_data_set_decides_nothing(name: str, tmp_path: Path) -> None:
    store = sbm_cluster((3,), 0, base=BlockModel(2, 8, 12, 0.7, 0.3))
    store = store.replace(edge_attr=torch.arange(store.num_edges).remainder(3).unsqueeze(1))
    turned = [2, 1, 0]
    graphs = [store.gather([graph]) for graph in turned]
    other = GraphStore.from_arrays(
        store.sizes[turned],
        store.edge_counts[turned],
        torch.cat([graph.edge_index for graph in graphs], 1),
        x=torch.cat([graph.x for graph in graphs]),
        edge_attr=torch.cat([graph.edge_attr for graph in graphs if graph.edge_attr is not None]),
    )
    here, there = (apply(each, {"T": transform_of(name)}, tmp_path) for each in (store, other))
    for graph in range(3):
        for a, b in zip(_encodings(here, graph), _encodings(there, turned.index(graph)), strict=True):
            torch.testing.assert_close(a, b, equal_nan=True)


def _encodings(store: GraphStore, graph: int) -> list[Tensor]:
    batch = store.gather([graph])
    sets, pairs, hops = batch.edge_sets.values(), batch.pairs, batch.hops
    return [
        *(values for named in (batch.pe, batch.edge_pe, batch.pair_pe) for values in named.values()),
        *(values for each in sets for values in (each.index, each.attr) if values is not None),
        *([] if pairs is None else [pairs.distance]),
        *([] if hops is None else [hops.row_ptr, hops.col, hops.hop]),
    ]


@pytest.mark.parametrize("changed", ["edge_index", "x", "edge_attr"])
@pytest.mark.parametrize("name", NAMES)
def test_the_result_depends_on_what_it_says_it_reads(name: str, changed: Input) -> None:
    store, transform = example(), transform_of(name)
    assert store.x is not None
    assert store.edge_attr is not None
    other = {
        "edge_index": GraphStore.from_arrays(  # a third of the edges
            store.sizes,
            [len(range(0, int(count), 3)) for count in store.edge_counts],
            torch.cat([store.gather([graph]).edge_index[:, ::3] for graph in range(store.num_graphs)], 1),
            x=store.x,
        ),
        "x": store.replace(x=store.x + torch.arange(store.num_nodes).remainder(2).unsqueeze(1)),
        "edge_attr": store.replace(edge_attr=store.edge_attr.flip(0)),
    }[changed]
    before, after = transform(store), transform(other)
    same = before.keys() == after.keys() and all(_equal(before[output], after[output]) for output in before)
    assert same == (changed not in transform.reads)


def _equal(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.equal(a.nan_to_num(), b.nan_to_num())


def test_what_is_not_declared_is_refused_where_the_class_is_defined() -> None:
    with pytest.raises(TypeError, match=r"Half: a transform declares version and outputs \(see graphbench.transforms"):

        class Half(Transform):
            def __call__(self, store: GraphStore) -> dict[str, Tensor]:
                return {}

    with pytest.raises(TypeError, match="OfStacks: a transform declares outputs"):

        class OfStacks(StackTransform):
            version: ClassVar[int] = 1

            def blank(self, store: GraphStore, dtype: torch.dtype) -> dict[str, Tensor]:
                return {}

            def fill(self, stack: object, out: object) -> None:
                pass


def test_what_is_not_implemented_is_refused_where_it_is_built() -> None:
    class Nothing(StackTransform):
        version: ClassVar[int] = 1
        outputs: ClassVar[tuple[str, ...]] = ("nothing",)

    with pytest.raises(TypeError, match=r"abstract methods '?blank'?, '?fill'?"):
        Nothing()  # type: ignore[abstract]
