"""No batch of a link task has an edge that validation or test ask about, and nothing is computed with one."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import graphbench
from graphbench import experiment
from graphbench.config import Config
from graphbench.data.store import GraphStore
from graphbench.errors import UserError
from graphbench.factory.data import encode, read_data
from graphbench.factory.parts import Parts, build_parts
from graphbench.factory.split_data import data_of_split

NODES = 40


def _configured(folder: Path, changes: dict[str, Any]) -> Config:
    draw = torch.rand(NODES, NODES, generator=torch.Generator().manual_seed(0)) < 0.1
    edges = draw.triu(1).nonzero().T
    edge_index = torch.cat([edges, edges.flip(0)], dim=1)
    numbers = torch.arange(NODES).unsqueeze(1).double()
    torch.save({"x": numbers, "edge_index": edge_index}, folder / "links.pt")
    dataset = {
        **{"format": "custom", "name": "links", "task": "link_pred", "task_type": "classification"},
        **{"transductive": True, "split_mode": "random", "split": [0.6, 0.2, 0.2], "custom.path": folder / "links.pt"},
        **{"node_encoder": True, "node_encoder_name": "LinearNode", "edge_encoder": False},
    }
    model = {
        **{"gnn": {"head": "link_pred", "dim_inner": 8}, "model.type": "GPSModel", "model.loss_fun": "cross_entropy"},
        "gt": {"layer_type": "GCN+SGFormer", "layers": 1, "n_heads": 1, "dim_hidden": 8},
    }
    return graphbench.load_config({"dataset": dataset, **model}, changes, name="links")


def _built(folder: Path, changes: dict[str, Any]) -> Parts:
    return build_parts(_configured(folder, changes))


@pytest.mark.parametrize("sampler", ["full_batch", "neighbor", "shadow"])
def test_links_of_validation_and_test_are_in_no_batch(tmp_path: Path, sampler: str) -> None:
    parts = _built(tmp_path, {"train.sampler": sampler, "train.neighbor_sizes": [9, 9], "train.batch_size": 16})
    asked = parts.loaded.store.edge_sets["label"].index[:, torch.cat([parts.splits.val, parts.splits.test])].T.tolist()
    forbidden = {frozenset(pair) for pair in asked}
    batches = [batch for batch, _ in parts.loaders.train(0)]
    batches += [batch for each in parts.loaders.passes for batch, _ in each.batches()]
    for batch in batches:
        assert batch.num_edges
        ends = batch.x[:, 0].long()[batch.edge_index].T.tolist()
        assert not {frozenset(pair) for pair in ends} & forbidden
    assert sum(parts.info.degree_histogram) == NODES
    degree = torch.bincount(parts.loaded.store.edge_index[1].long(), minlength=NODES)
    assert parts.info.degree_histogram == tuple(torch.bincount(degree).tolist())  # of what is left


ENCODED = [
    {
        "dataset.node_encoder_name": "LinearNode+RWSE",
        "posenc_RWSE.enable": True,
        "posenc_RWSE.model": "Linear",
        "posenc_RWSE.dim_pe": 4,
        "posenc_RWSE.kernel.times": [2, 3, 4],
    },
    {"gt.layer_type": "GCN+Gradformer"},
]


@pytest.mark.parametrize("changes", ENCODED, ids=["an encoding", "distances"])
@pytest.mark.parametrize("seed", [0, 1])
def test_encodings_are_those_of_the_graph_without_them(tmp_path: Path, changes: dict[str, Any], seed: int) -> None:
    parts = _built(tmp_path, {**changes, "dataset.split_seed": seed})
    found, whole = parts.loaded.store, read_data(parts.config)
    ends = {frozenset(pair) for pair in found.edge_index.T.tolist()}
    kept = torch.tensor([frozenset(pair) in ends for pair in whole.store.edge_index.T.tolist()])
    edges = whole.store.edge_index[:, kept]
    bare = whole.store.replace(edge_index=edges, edge_ptr=torch.tensor([0, edges.shape[1]]))
    left, shown = (_computed(encode(parts.config, replace(whole, store=store)).store) for store in (bare, whole.store))
    computed = _computed(found)
    assert computed.keys() == left.keys()
    assert all(torch.equal(computed[name], left[name]) for name in computed)
    assert not all(torch.equal(computed[name], shown[name]) for name in computed)


def _computed(store: GraphStore) -> dict[str, torch.Tensor]:
    assert store.pe or store.pairs is not None
    return {**store.pe, **({} if store.pairs is None else {"pairs": store.pairs})}


def test_a_training_tells_that_it_computes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("GRAPHBENCH_CACHE", str(tmp_path / "cache"))
    changes = {**ENCODED[0], "optim.max_epoch": 1, "out_dir": tmp_path / "results"}
    with caplog.at_level(logging.INFO):
        experiment.run(_configured(tmp_path, changes))
    assert caplog.text.count("computing RWSE of 1 graphs, 40 nodes") == 1


def test_encodings_in_the_data_were_computed_with_them(tmp_path: Path) -> None:
    parts = _built(tmp_path, {})
    whole = read_data(parts.config)
    encoded = replace(whole, store=whole.store.replace(pe={"own": torch.ones(NODES, 1)}))
    with pytest.raises(UserError, match="asked about in validation or test, and encodings in the data were"):
        data_of_split(parts.config, encoded, parts.splits)
