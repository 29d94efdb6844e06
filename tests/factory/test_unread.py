"""What a configuration sets and nothing reads is told, and only that."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from graphbench.config import load_config
from graphbench.config.schema import SCHEMA
from graphbench.preflight import check

CONFIGS = Path(__file__).parents[2] / "configs"


def _told(file: str, overrides: str) -> list[str]:
    notices = check(load_config(CONFIGS / file, overrides.split())).config.notices
    return [each for each in notices if each.startswith("command line: ") and "has no effect" in each]


@pytest.mark.parametrize(
    ("file", "overrides", "told"),
    [
        ("nodes/sgformer-cora.yaml", "optim.momentum 0.5", "optim.optimizer adam does not read it"),
        ("nodes/sgformer-cora.yaml", "optim.steps [1,2]", "optim.scheduler none does not read it"),
        ("nodes/sgformer-cora.yaml", "gnn.stage_type skipsum", "model.type TwoBranch does not read it"),
        ("nodes/sgformer-cora.yaml", "gnn.layers_pre_mp 1", "model.type TwoBranch does not read it"),
        ("nodes/sgformer-cora.yaml", "model.graph_pooling mean", "the head node does not read it"),
        ("nodes/sgformer-cora.yaml", "gnn.layers_mp 5", "TwoBranch reads gt.layer_type, gt.layers instead"),
        ("nodes/sgformer-cora.yaml", "graphormer.dropout 0.5", "TwoBranch reads gt.layer_type, gt.layers instead"),
        ("nodes/sgformer-cora.yaml", "gt.dropout 0.4", r"no layer of TwoBranch (GCN, SGFormer) reads it"),
        ("nodes/sgformer-cora.yaml", "gt.batch_norm false", r"no layer of TwoBranch (GCN, SGFormer) reads it"),
        ("lrgb/gcn-pascal.yaml", "gnn.agg mean", "no layer of gnn (gcnconv) reads it"),
        ("lrgb/gcn-pascal.yaml", "gt.layers 7", "gnn reads gnn.layer_type, gnn.layers_mp instead"),
        ("tu/gin-like-gradformer-mutag.yaml", "graphormer.num_layers 2", "instead"),
        ("gnnbench/gps-csl.yaml", "dataset.split [0.5,0.2,0.3]", "does not read it"),
        ("nodes/sgformer-cora.yaml", "train.batch_size 8", "the data are transductive, train.sampler is full_batch)"),
    ],
)
def test_keys_without_a_reader(file: str, overrides: str, told: str) -> None:
    key = overrides.split()[0]
    (sentence,) = _told(file, overrides)
    assert sentence.startswith(f"command line: {key} has no effect: ")
    assert sentence.endswith(f"{told}.")


@pytest.mark.parametrize(
    ("overrides", "present", "needed"),
    [
        ("train.walk_length 9", "train.sampler full_batch", "train.sampler saint_rw"),
        ("train.sampler neighbor train.batching bucketed", "train.sampler neighbor", "train.sampler full_batch"),
        (
            "train.train_parts 3",
            "train.sampler full_batch and val.sampler full_batch",
            "train.sampler random_node/cluster or val.sampler random_node/cluster",
        ),
        ("optim.clip_grad_norm_value 3", "optim.clip_grad_norm False", "optim.clip_grad_norm True"),
        ("pretrained.freeze_main true", "pretrained.dir", "pretrained.dir"),
    ],
)
def test_keys_that_are_read_with_another_value_of_another(overrides: str, present: str, needed: str) -> None:
    key = overrides.split()[-2]
    (sentence,) = _told("nodes/sgformer-cora.yaml", overrides)
    assert sentence == f"command line: {key} has no effect with {present}: it is read with {needed}."


@pytest.mark.parametrize(
    ("file", "overrides"),
    [
        ("nodes/sgformer-cora.yaml", "optim.scheduler step optim.steps [1,2] optim.optimizer sgd optim.momentum 0.5"),
        ("nodes/sgformer-cora.yaml", "train.sampler random_node train.train_parts 3 optim.momentum 0.9"),
        ("nodes/sgformer-cora.yaml", "optim.clip_grad_norm true optim.clip_grad_norm_value 3"),
        ("lrgb/gcn-pascal.yaml", "gnn.layer_type generalconv gnn.agg mean gnn.self_msg add gnn.stage_type skipsum"),
        ("gnnbench/gps-zinc.yaml", "gt.dropout 0.3 gt.local_dropout 0.1 model.graph_pooling mean gnn.layers_pre_mp 1"),
        ("nodes/sgformer-cora.yaml", "gt.layer_type GCN+Transformer gt.attn_dropout 0.4"),
    ],
)
def test_keys_with_a_reader(file: str, overrides: str) -> None:
    assert not _told(file, overrides)


def test_batches_of_own_graphs_have_a_size(tmp_path: Path) -> None:
    graphs = [{"x": torch.ones(3, 2), "edge_index": torch.zeros(2, 0, dtype=torch.long), "y": each} for each in (0, 1)]
    torch.save(graphs * 10, tmp_path / "own.pt")
    config = {
        "dataset": {"format": "custom", "task": "graph", "custom.path": tmp_path / "own.pt", "split_mode": "random"},
        "gnn.head": "default",
        "train.batch_size": 4,
    }
    notices = check(load_config(config, name="own")).config.notices
    assert not [each for each in notices if "train.batch_size" in each]


def test_conditions_name_keys_and_their_values() -> None:
    for name, key in SCHEMA.items():
        for other, values in key.only_with.items():
            allowed = SCHEMA[other].allowed
            assert name != other
            assert allowed is None or set(values) <= set(allowed)
