"""No batch of a link task has an edge that validation or test ask about, and nothing is computed with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import graphbench
from graphbench.errors import UserError
from graphbench.factory.parts import Parts, build_parts

NODES = 40


def _built(folder: Path, changes: dict[str, Any]) -> Parts:
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
    config = graphbench.load_config({"dataset": dataset, **model}, changes, name="links")
    return build_parts(config)


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


@pytest.mark.parametrize(
    "changes",
    [
        {"dataset.node_encoder_name": "LinearNode+LapPE", "posenc_LapPE.enable": True, "posenc_LapPE.dim_pe": 2},
        {"gt.layer_type": "GCN+Gradformer"},
    ],
    ids=["an encoding", "distances"],
)
def test_what_was_computed_with_them_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="asked about in validation or test, and the encodings of the nodes were"):
        _built(tmp_path, changes)
