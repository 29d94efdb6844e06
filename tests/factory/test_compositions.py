"""Parts that cannot work together are refused before data is read; parts that can, do."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
import torch

from graphbench import registry
from graphbench.config import load_config
from graphbench.encoders.positional.equiv_stable_lap_pe import EquivStableLapPE
from graphbench.errors import UserError
from graphbench.factory.data import declared_info
from graphbench.factory.model import build_model
from graphbench.factory.task import build_task
from graphbench.factory.transforms import build_transforms
from graphbench.preflight import check, describe
from graphbench.tasks.metrics.accuracy import Accuracy
from tests.paths import ROOT
from tests.synthetic_batch import SIZES, batch_like

ZINC, CORA, MUTAG, CONTACT = (
    ROOT / f"configs/{name}.yaml"
    for name in ("gnnbench/gps-zinc", "nodes/sgformer-cora", "tu/gps-mutag", "lrgb/gps-pcqm-contact")
)
PROXIMITY = "dataset.node_encoder_name TypeDictNode+ProximityBias posenc_ProximityBias.enable true"
WAVES = "posenc_WavePE.enable true posenc_WavePE.scales [1,2]"
STABLE = "posenc_EquivStableLapPE.enable true"
LINEAR = "dataset.node_encoder true dataset.node_encoder_name LinearNode"
TOKEN = "posenc_GraphToken.enable true"


@pytest.mark.parametrize(
    ("path", "overrides", "message"),
    [
        (
            ZINC,
            f"{PROXIMITY} gt.layer_type DeepNorm graphormer.num_heads 2",
            "ProximityBias, which attention adds, and",
        ),
        (
            ZINC,
            f"dataset.node_encoder_name TypeDictNode+EquivStableLapPE+WavePE {STABLE} {WAVES}",
            "layers read one of",
        ),
        (
            ZINC,
            f"dataset.node_encoder_name TypeDictNode+WavePE+GraphToken {WAVES} {TOKEN}",
            "GraphToken adds a node to every graph, which WavePE would not know; name GraphToken before WavePE",
        ),
        (
            CORA,
            f"dataset.node_encoder true dataset.node_encoder_name LinearNode+GraphToken gnn.head default {TOKEN}",
            "a further node of every graph, for which gnn.head node has no target; leave GraphToken out",
        ),
        (ZINC, "gt.layer_type GatedGCN gt.GatedGCN.equivstable true", "name one of EquivStableLapPE, EquivStableRWSE,"),
        (ZINC, "model.type MGT gt.layers 2", "layers gate edges by the distance between encodings"),
        (ZINC, "gt.layer_type GraphTransformerLayer dataset.edge_encoder false", "set edge_states to false"),
        (
            ZINC,
            "gt.layer_type SATLayer gt.SATLayer.gnn_type GINE dataset.edge_encoder false",
            "gnn_type: GINE reads edge states, and nothing supplies them",
        ),
        (ZINC, "gt.layer_type gatedgcn gt.dim_edge 8", "edge states of 64 channels, and the layers read 8"),
        (ZINC, "gt.layer_type GatedGCN+Transformer gt.dim_edge 8", "edge states of 64 channels, and the layers read 8"),
        (ZINC, "gt.layer_type None+FFGT gt.FFGT.neighbors lists", "all 4 heads must be focal and unreachable mask"),
        (ZINC, "model.type GRED gnn.layer_type SPN", "the layers of a model share one HopNeighbors"),
        (ZINC, "gnn.head mlp_node", "predicts for every node, the task of ZINC is one prediction per graph. Use graph"),
        (CORA, "gnn.head san_graph", "predicts for every graph, the task of Cora is one prediction per node. Use node"),
        (CORA, "gnn.head edge", "predicts for every pair of nodes, the task of Cora is one prediction per node"),
        (
            CORA,
            f"model.type GNNAK gnn.layer_type GIN {LINEAR}",
            "GNNAK predicts for graphs, the head node for every node",
        ),
        (
            CONTACT,
            "model.edge_decoding concat",
            "chosen by mrr, which the head computes: use gnn.head ind",
        ),
        (CONTACT, "gnn.head edge", "the epoch is chosen by mrr, which the head computes"),
        (
            CORA,
            "model.type GraphTrans gnn.layer_type GIN gt.GraphTrans.readout token",
            "GraphTrans predicts for graphs, the head node for every node",
        ),
        (
            CORA,
            "dataset.node_encoder true dataset.node_encoder_name LinearNode+ProximityBias "
            "posenc_ProximityBias.enable true train.sampler shadow",
            "train.sampler shadow cuts the graph, and ProximityBias of pairs of nodes cannot be cut along",
        ),
        (
            CORA,
            "model.type LINKX gt.LINKX.nodes 2708 optim.attention_weight_decay none train.sampler neighbor",
            "train.sampler neighbor cuts the graph, and model.type LINKX has parameters of each of its nodes",
        ),
    ],
)
def test_what_cannot_work_is_refused_without_data(path: Path, overrides: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        describe(load_config(path, overrides.split()))


@pytest.mark.parametrize(
    ("path", "overrides"),
    [
        # Columns of encodings named later lie behind those that the encoder changes.
        (ZINC, f"dataset.node_encoder_name TypeDictNode+WavePE+RWSE gt.layer_type GIN {WAVES}"),
        # Raw features are as wide as they are.
        (MUTAG, "dataset.node_encoder true dataset.node_encoder_name AddLapPE posenc_AddLapPE.enable true"),
    ],
)
def test_what_can_work_trains(path: Path, overrides: str, tmp_path: Path) -> None:
    config = load_config(path, [*overrides.split(), "gt.layers", "1", "gnn.layers_pre_mp", "1"])
    info = dataclasses.replace(declared_info(config), max_nodes=max(SIZES))
    batch = batch_like(info, build_transforms(config), tmp_path)
    loss = build_task(config, info).loss(build_model(config, info)(batch), batch.y)
    loss.backward()
    assert torch.isfinite(loss)


@pytest.mark.parametrize("names", ["GraphormerBias+HopMask", "HopMask+GraphormerBias"])
def test_biases_of_pairs_add_up_in_any_order(names: str, tmp_path: Path) -> None:
    sizes = " ".join(
        f"posenc_GraphormerBias.{name} 16" for name in ("num_spatial_types", "num_in_degrees", "num_out_degrees")
    )
    config = load_config(
        ZINC,
        f"dataset.node_encoder_name TypeDictNode+{names} posenc_HopMask.enable true posenc_GraphormerBias.enable true "
        f"{sizes} graphormer.use_graph_token false".split(),
    )
    info = declared_info(config)
    batch = batch_like(info, build_transforms(config), tmp_path)
    _, after = build_model(config, info).encoder(batch)
    bias, far = after.state.pair_bias, batch.pairs.distance > 1
    assert bias[far].max() < -1e3
    assert 0 < bias[~far].abs().max() < 1e3


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        ("HopMask posenc_HopMask.enable true", True),
        ("HopMask posenc_HopMask.enable true gt.layer_type None+BiasedTransformer", False),
        (f"EquivStableLapPE {STABLE} gt.layer_type GCN+Transformer", True),
        (f"EquivStableLapPE {STABLE}", False),
        (f"WavePE {WAVES}", True),
        (f"WavePE {WAVES} gt.GINE.equivstable true", False),
        ("RRWP posenc_RRWP.enable true", True),
        ("RRWP posenc_RRWP.enable true gt.layer_type GritTransformer", False),
    ],
)
def test_what_no_layer_reads_is_told(overrides: str, told: bool, caplog: pytest.LogCaptureFixture) -> None:
    config = load_config(ZINC, f"graphormer.num_heads 4 dataset.node_encoder_name TypeDictNode+{overrides}".split())
    describe(config)
    assert ("which none of these layers reads" in caplog.text) == ("this state has no effect" in caplog.text) == told
    assert any("which none of these layers reads" in notice for notice in check(config).config.notices) == told


def test_an_encoder_of_a_plug_in_may_ask_local_layers_for_gates() -> None:
    registry.register("Mine", namespace="encoders/positional")(type("Mine", (EquivStableLapPE,), {}))
    mine = "dataset.node_encoder_name TypeDictNode+Mine posenc_Mine.enable true".split()
    try:
        described = describe(load_config(ZINC, mine))
        plain = describe(load_config(ZINC, [*mine, "gt.GINE.equivstable", "false"]))
    finally:
        registry.forget("encoders/positional", "Mine")
    assert described.params > plain.params


def test_a_split_file_that_nothing_would_read_is_refused() -> None:
    with pytest.raises(UserError, match=r"line: dataset.split_file is read with dataset.split_mode fixed only"):
        check(load_config(MUTAG, ["dataset.split_file", "mine.json"]))


@pytest.mark.parametrize("name", ["epoch", "loss", "mae_std", "f1_n"])
def test_a_metric_with_the_name_of_something_else_in_records_is_refused(name: str) -> None:
    registry.register(name)(type("Mine", (Accuracy,), {}))
    try:
        with pytest.raises(UserError, match=f"line: a metric cannot be called '{name}': records have this name for"):
            check(load_config(MUTAG, ["custom_metrics", f"[{name}]"]))
    finally:
        registry.forget("tasks/metrics", name)


@pytest.mark.parametrize(
    ("of", "overrides", "told"),
    [
        (CORA, "gt.attn_dropout 0.7", r"gt\.attn_dropout has no effect: no layer of TwoBranch \(GCN, SGFormer\) reads"),
        (
            CORA.with_name("nagphormer-cora.yaml"),
            "gt.n_heads 3",
            r"gt\.n_heads has no effect: no layer of NAGphormer reads",
        ),
        (CORA, "gt.attn_dropout 0.7 gt.layer_type GCN+Transformer", None),
        (CORA.with_name("geco-cora.yaml"), "", None),  # a file that it builds on says gt.n_heads 1
        (ZINC, "gt.attn_dropout 0.7 gt.n_heads 2", None),
    ],
)
def test_keys_that_no_layer_reads_are_told(of: Path, overrides: str, told: str | None) -> None:
    notices = [each for each in check(load_config(of, overrides.split())).config.notices if "no layer of" in each]
    if told is None:
        assert not notices
    else:
        assert len(notices) == 1
        assert re.search(f"^command line: {told} it.", notices[0])
