"""A layer says which transforms it reads and which parameters all layers share; the model does the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from graphbench import factory, registry
from graphbench.config import load_config
from graphbench.contract import TiesParameters
from graphbench.data.store import GraphStore
from graphbench.errors import UserError
from graphbench.factory.transforms import build_transforms
from graphbench.layers.contract import GlobalAttention
from graphbench.registry import FromContext
from graphbench.structures import GraphBatch
from graphbench.transforms.algorithms.cache import apply
from graphbench.transforms.shortest_paths import ShortestPaths
from tests.paths import ROOT
from tests.synthetic_batch import batch_like

MUTAG = ROOT / "configs/tu/gps-mutag.yaml"


class Near(GlobalAttention, TiesParameters):
    """Mean over the nodes within some hops, times one number that all layers share."""

    def __init__(self, dim: FromContext[int], *, hops: int = 2):
        super().__init__()
        self.hops, self.scale = hops, nn.Parameter(torch.ones(1))

    @classmethod
    def required_transforms(cls, arguments: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        return {"ShortestPaths": {"cutoff": arguments["hops"]}}

    def tie(self, first: Near) -> None:
        self.scale = first.scale

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        near = torch.block_diag(*(batch.pairs.block(g) <= self.hops for g in range(batch.num_graphs))).to(h.dtype)
        return self.scale * (near / near.sum(1, keepdim=True).clamp(min=1)) @ h


class Far(Near):
    """The same, but it asks for other distances."""

    @classmethod
    def required_transforms(cls, arguments: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        return {"ShortestPaths": {"cutoff": 7}}


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    registry.register("Near")(Near)
    registry.register("Far")(Far)
    yield
    registry.forget("layers/attention", "Near", "Far")


def mutag(layers: str, *overrides: str):
    return load_config(MUTAG, ["gt.layer_type", layers, *overrides])


@pytest.mark.parametrize("layers", ["GIN+Near", "None+Near"])
@pytest.mark.parametrize(("own", "cutoff"), [([], 2), (["gt.Near.hops", "3"], 3)])
def test_arguments_come_from_the_configuration_and_the_batch_has_what_is_read(
    layers: str, own: list[str], cutoff: int, tmp_path: Path
) -> None:
    config = mutag(layers, *own)
    found = build_transforms(config)
    assert set(found) == {"RWSE", "ShortestPaths"}
    assert found["ShortestPaths"].cutoff == cutoff
    info = factory.declared_info(config)
    batch = batch_like(info, found, tmp_path)
    assert batch.pairs is not None
    factory.build_model(config, info)(batch).sum().backward()


def test_two_branches_read_and_share_as_well() -> None:
    config = mutag("GCN+Near", "model.type", "TwoBranch", "gt.layers", "3")
    assert "ShortestPaths" in build_transforms(config)
    model = factory.build_model(config, factory.declared_info(config))
    assert len({id(each) for each in _scales(model)}) == 1


def test_all_layers_learn_one_number_that_counts_once(tmp_path: Path) -> None:
    config = mutag("GIN+Near", "gt.layers", "3")
    info = factory.declared_info(config)
    model = factory.build_model(config, info)
    assert len(_scales(model)) == 3
    assert sum(each is _scales(model)[0] for each in model.parameters()) == 1
    model(batch_like(info, build_transforms(config), tmp_path)).sum().backward()
    assert _scales(model)[2].grad.abs() > 0
    copied = factory.build_model(config, info)
    copied.load_state_dict(model.state_dict())
    assert len({id(each) for each in _scales(copied)}) == 1


def _scales(model: nn.Module) -> list[Tensor]:
    return [module.scale for module in model.modules() if isinstance(module, Near)]


def test_layers_that_disagree_are_refused() -> None:
    with pytest.raises(UserError, match=r"share one ShortestPaths, received the arguments \{'cutoff': 2\} and .* 7\}"):
        build_transforms(mutag("Near+Far"))


def test_two_measures_of_distance_are_refused(tmp_path: Path) -> None:
    path = np.asarray([[0, 1, 2], [1, 2, 3]])
    store = GraphStore.from_arrays([4], [3], path, x=np.ones((4, 1)))
    assert apply(store, {"a": ShortestPaths(5), "b": ShortestPaths()}, tmp_path).pairs is not None
    with pytest.raises(ValueError, match="b measures other distances"):
        apply(store, {"a": ShortestPaths(2), "b": ShortestPaths()}, tmp_path)


def test_graphs_too_large_for_all_pairs_are_refused_with_the_way_out() -> None:
    store = GraphStore.from_arrays([70_000], [0], np.empty((2, 0), dtype=np.int64), x=np.ones((70_000, 1)))
    with pytest.raises(UserError, match=r"70,000 nodes: .* 4\.6 GiB, the limit is 4 GiB.*HopNeighbors"):
        ShortestPaths()(store)
