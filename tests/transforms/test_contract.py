"""What every transform has to declare and keep to; a new one is found by itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from graphbench import registry
from graphbench.data.generators import BlockModel, sbm_cluster
from graphbench.data.store import GraphStore
from graphbench.testing import check_transform
from graphbench.testing.examples import store_of
from graphbench.testing.transforms import GRAPHS, check_graph_independence
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
    store = sbm_cluster((2,), 0, base=BlockModel(2, 6, 7, 0.7, 0.3))
    return store.replace(edge_attr=torch.arange(store.num_edges).remainder(3).unsqueeze(1))


@pytest.mark.parametrize("name", NAMES)
def test_transform(name: str) -> None:
    component, arguments = registry.lookup("transforms", name), ARGUMENTS.get(name, {})
    if name != "EffectiveResistance":
        check_transform(component, **arguments)
        return
    with pytest.raises(AssertionError) as told:  # keeps as many rows as the largest graph wants, as Exphormer does
        check_transform(component)
    assert re.fullmatch(r".*\n  graph_independence: .* depends on other graphs, .* shape .*", str(told.value))
    check_graph_independence(component(), GRAPHS((6, 6, 6)))


@pytest.mark.parametrize("name", NAMES)
def test_encodings_are_kept_under_name_and_arguments(name: str, tmp_path: Path) -> None:
    transform, store = transform_of(name), store_of(GRAPHS((5, 0, 1)))
    described = describe(transform)
    assert described["transform"] == transform.registered_name == name
    assert set(described["arguments"]) == set(registry.parameters(type(transform)))
    assert isinstance(described["version"], int)
    kept = apply(store, {"T": transform}, tmp_path)
    again = apply(store, {"T": transform_of(name)}, tmp_path, pytest.fail)
    assert again.pe.keys() == kept.pe.keys()
    assert again.edge_pe.keys() == kept.edge_pe.keys()


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
