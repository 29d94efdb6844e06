"""One large graph in pieces, from YAML to scores, on real Cora."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from graphbench.config import load_config
from graphbench.data.large.generator import power_law
from graphbench.errors import UserError
from graphbench.experiment import run
from graphbench.preflight import describe
from graphbench.registry import registrations
from graphbench.runs.record import RunRecord
from tests.paths import ROOT
from tests.test_main import call

CORA, ACTOR, PHYSICS, GRAPHORMER = (
    ROOT / f"configs/nodes/{name}.yaml"
    for name in ("sgformer-cora", "gps-actor", "exphormer-physics", "graphormer-actor")
)
BLOCKS = "train.sampler random_node val.sampler blocks"


@pytest.mark.parametrize(
    "overrides",
    [
        "train.sampler random_node train.train_parts 4 val.sampler blocks",
        "train.sampler random_node train.train_parts 4 val.sampler full_batch",
        "train.sampler neighbor train.neighbor_sizes [5,-1] train.batch_size 64 val.sampler random_node",
        pytest.param(
            "train.sampler shadow train.neighbor_sizes [5,5] train.batch_size 32 val.sampler shadow",
            marks=pytest.mark.slow,
        ),
        "train.sampler cluster train.train_parts 8 train.batch_size 2 val.sampler blocks",
        "train.sampler saint_node train.batch_size 600 train.iter_per_epoch 4 train.sample_coverage 5",
        "train.sampler saint_edge train.batch_size 400 train.iter_per_epoch 4 val.sampler blocks",
        "train.sampler saint_rw train.batch_size 200 train.walk_length 3 train.iter_per_epoch 4",
    ],
)
def test_a_graph_is_trained_in_pieces(overrides: str, tmp_path: Path, monkeypatch, data_root: Path) -> None:
    monkeypatch.setenv("GRAPHBENCH_DATA", str(data_root))
    own = ["out_dir", str(tmp_path / "out"), "dataset.dir", str(tmp_path / "data"), "optim.max_epoch", "6"]
    line = run(load_config(CORA, [*overrides.split(), *own, "accelerator", "cpu"]))
    assert line is not None
    assert line["val"]["accuracy"] > 0.4  # seven classes


DROP_EDGE = ROOT / "tests/additions/sampler/graphbench/data/large/drop_edge.py"


def test_a_sampler_of_a_plug_in(tmp_path: Path, monkeypatch, data_root: Path, plug_ins_forgotten: None) -> None:
    monkeypatch.setenv("GRAPHBENCH_DATA", str(data_root))
    plugin = tmp_path / "drop_edge.py"
    plugin.write_text(DROP_EDGE.read_text())
    monkeypatch.setenv("GRAPHBENCH_ALLOW_PLUGINS", "1")
    own = ["out_dir", str(tmp_path / "out"), "dataset.dir", str(tmp_path / "data"), "plugins", f"['{plugin}']"]
    sampler = ["train.sampler", "drop_edge", "accelerator", "cpu"]
    lines = {
        share: run(
            load_config(CORA, [*own, *sampler, "train.drop_edge.share", share, "optim.max_epoch", "6"], name=share)
        )
        for share in ("0.2", "0.9")
    }
    losses = {share: line["val"]["loss"] for share, line in lines.items() if line is not None}
    assert len(set(losses.values())) == 2, "the key has no effect"
    assert lines["0.2"] is not None
    assert lines["0.2"]["val"]["accuracy"] > 0.4
    for wrong, told in (
        (["train.drop_edge.share", "2"], "train.drop_edge.share: share must lie in .0, 1."),
        (["train.drop_edge.shar", "0.2"], "unknown argument of drop_edge 'shar'. Did you mean 'share'"),
        (["val.sampler", "drop_edge"], "drop_edge is for training alone, not for val.sampler"),
    ):
        with pytest.raises(UserError, match=told):
            run(load_config(CORA, [*own, *sampler, *wrong]))


def test_blocks_give_the_scores_of_the_whole_graph(tmp_path: Path, monkeypatch, data_root: Path) -> None:
    monkeypatch.setenv("GRAPHBENCH_DATA", str(data_root))
    scores = []
    for evaluation in ("blocks", "full_batch"):
        own = ["out_dir", str(tmp_path / evaluation), "dataset.dir", str(tmp_path / "data"), "optim.max_epoch", "3"]
        sampler = ["train.sampler", "random_node", "train.train_parts", "3", "val.sampler", evaluation]
        line = run(load_config(CORA, [*sampler, *own, "accelerator", "cpu"]))
        assert line is not None
        scores.append(line["test"])
    assert scores[0] == pytest.approx(scores[1], rel=1e-4)


@pytest.mark.slow
def test_processes_share_the_blocks(tmp_path: Path, monkeypatch, data_root: Path) -> None:
    monkeypatch.setenv("GRAPHBENCH_DATA", str(data_root))
    kinds = ("blocks", "full_batch")
    for kind in kinds:
        text = f"_base_: {CORA}\ntrain: {{sampler: random_node, train_parts: 4}}\nval: {{sampler: {kind}}}\n"
        (tmp_path / f"{kind}.yaml").write_text(text)
    files = [f"{kind}.yaml" for kind in kinds]
    own = ["dataset.dir", "data", "optim.max_epoch", "3", "num_threads", "1", "accelerator", "cpu", "devices", "2"]
    done = call("--cfg", *files, *own, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    of_blocks, whole = (RunRecord.read(tmp_path / f"results/{kind}/123/record.json") for kind in kinds)
    assert of_blocks is not None
    assert whole is not None
    for found, expected in zip(of_blocks.scores, whole.scores, strict=True):
        assert (found.split, found.name, found.count) == (expected.split, expected.name, expected.count)
        assert found.value == pytest.approx(expected.value, rel=1e-4)


def test_the_record_names_clusters_and_approximation(tmp_path: Path, monkeypatch, data_root: Path) -> None:
    """And a run that was trained on clusters goes on with the same ones, or not at all."""
    monkeypatch.setenv("GRAPHBENCH_DATA", str(data_root))
    sampler = "train.sampler cluster train.train_parts 4 train.batch_size 2 val.sampler cluster".split()
    own = ["out_dir", str(tmp_path / "out"), "dataset.dir", str(tmp_path / "data"), "optim.max_epoch", "2"]
    config = load_config(CORA, [*sampler, *own, "accelerator", "cpu", "train.clustering", "rcm"])
    run(config)
    (file,) = (tmp_path / "out").glob("*/*/record.json")
    record = RunRecord.read(file)
    assert record is not None
    assert record.sampling is not None
    assert record.sampling.startswith("4 clusters by reverse Cuthill-McKee order, ")
    assert record.approximation == f"predicted cluster by cluster ({record.sampling}), without the edges between"
    dataclasses.replace(record, status="interrupted", sampling="4 clusters by METIS").write(file)
    with pytest.raises(UserError, match="this run began with 4 clusters by METIS, and would go on with 4"):
        run(config)


@pytest.mark.parametrize(
    ("sampler", "sizes", "exact"),
    [("neighbor", "[-1,-1,-1]", True), ("neighbor", "[2]", False), ("shadow", "[2,2]", False)],
)
def test_the_record_has_the_error_of_sampled_predictions(
    sampler: str, sizes: str, exact: bool, large_graph: Path, tmp_path: Path
) -> None:
    """Two convolutions read two hops, and the degrees of the nodes there those of a third."""
    own = ["out_dir", str(tmp_path), "train.sampler", sampler, "val.sampler", sampler, "train.neighbor_sizes", sizes]
    line = run(load_config(large_graph, [*own, "train.batch_size", "1000", "optim.max_epoch", "1"]))
    assert line is not None
    (record,) = map(RunRecord.read, tmp_path.glob("*/*/record.json"))
    assert record is not None
    assert record.approximation is not None
    errors = record.approximation_error
    assert errors.keys() == {"val", "test"}
    for of_split in errors.values():
        assert of_split.keys() >= {"loss", "accuracy", "predictions"}
        assert (of_split["predictions"] < 1e-4) == exact
        assert abs(of_split["accuracy"]) < (1e-3 if exact else 1)
        assert exact or of_split["loss"] != 0
    if not exact:  # weights of a subgraph are not those of the graph
        own += ["pretrained.dir", str(tmp_path / large_graph.stem), "train.mode", "log-attn-weights"]
        with pytest.raises(UserError, match=r"log-attn-weights reads whole graphs: set val.sampler to full_batch"):
            run(load_config(large_graph, own))


@pytest.mark.parametrize(
    ("path", "overrides", "message"),
    [
        (CORA, "val.sampler blocks", "val.sampler blocks is for graphs that are cut in training as well"),
        (ACTOR, BLOCKS, "command line: val.sampler: Transformer reads the graph as a whole"),
        (ACTOR, f"{BLOCKS} gt.layer_type GCN+None gt.layer_norm true gt.batch_norm false", "GraphLayerNorm reads the"),
        (PHYSICS, BLOCKS, "train.sampler random_node cuts the graph, and expander of pairs of nodes cannot be cut"),
        (GRAPHORMER, BLOCKS, "random_node cuts the graph, and GraphormerBias of pairs of nodes cannot be cut along"),
        (
            CORA,
            "train.sampler saint_rw train.sample_coverage 5 model.loss_fun weighted_cross_entropy",
            "weights the loss of every node, and the loss weighted_cross_entropy reads all rows",
        ),
        (CORA, "train.sampler shadow val.sampler neighbor", "batches like those of train.sampler neighbor; received"),
        (CORA, "train.sampler saint_walk", "Did you mean 'saint_rw'"),
    ],
)
def test_samplers_that_do_not_fit_show_without_data(path: Path, overrides: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        describe(load_config(path, overrides.split()))


TWO_HOPS = """
from torch import nn
from graphbench.encoders.compose import NodeEncoder
from graphbench.layers.contract import LocalLayer
from graphbench.models.contract import Model
from graphbench.ops.propagate import propagate
from graphbench.registry import FromContext, register

@register("TwoHops")
class TwoHops(LocalLayer):
    def __init__(self, dim_in: FromContext[int], dim_out: FromContext[int]):
        super().__init__()
        self.lin = nn.Linear(dim_in, dim_out)
    def forward(self, h, e, batch):
        adj = batch.adjacency(norm="row")
        return propagate(adj, propagate(adj, self.lin(h))), e

@register("NoBlocks")
class NoBlocks(Model):
    def __init__(self, encoder: FromContext[NodeEncoder], head: FromContext[object], dim_encoded: FromContext[int]):
        super().__init__()
        self.encoder, self.head = encoder, head(dim_encoded)
    def forward(self, batch):
        return self.head(*self.encoder(batch))
"""


@pytest.fixture
def plug_ins_forgotten() -> Iterator[None]:
    """Other tests do not meet what is registered here; what is imported meanwhile stays registered."""
    yield
    for components in registrations._registered.values():
        for name in [
            name for name, component in components.items() if component.__module__.startswith("graphbench_plugin")
        ]:
            del components[name]
    for module in [module for module in sys.modules if module.startswith("graphbench_plugin")]:
        del sys.modules[module]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ("gt.layer_type TwoHops+None", "block by block the layers give other predictions than for the whole graph"),
        ("model.type NoBlocks", "model.type NoBlocks cannot be evaluated block by block"),
    ],
)
def test_plug_ins_that_cannot_work_in_blocks_are_found_out(
    overrides: str, message: str, tmp_path: Path, plug_ins_forgotten: None
) -> None:
    (tmp_path / "two_hops.py").write_text(TWO_HOPS)
    plugins = ["plugins", f"['{tmp_path / 'two_hops.py'}']"]
    assert describe(load_config(ACTOR, [*plugins, *overrides.split()])).params > 0
    with pytest.raises(UserError, match=message):
        describe(load_config(ACTOR, [*plugins, *overrides.split(), *BLOCKS.split()]))


@pytest.mark.parametrize(
    ("path", "overrides"),
    [
        (ACTOR, "gt.layer_type GCN+SGFormer"),
        (ACTOR, "gt.layer_type GCN+GECO"),
        (ACTOR, "model.type GECO gt.layer_type GECO"),
        (ACTOR, "model.type GECO gt.layer_type GCN+GECO gt.GECO.permutation static gt.GECO.filter_norm l2"),
        (PHYSICS, "prep.exp false"),
        (CORA, "model.type gnn gnn.layer_type gatconv optim.attention_weight_decay none"),
    ],
)
def test_models_that_can_work_in_blocks_are_built(path: Path, overrides: str) -> None:
    plain = load_config(path, overrides.split())
    assert describe(load_config(path, [*overrides.split(), *BLOCKS.split()])) == describe(plain)


LARGE = """
dataset: {format: custom, name: power-law, task: node, task_type: classification, transductive: true,
          split_mode: random, custom: {path: graph.pt}}
model: {type: gnn}
gnn: {layer_type: gcnconv, layers_mp: 2, dim_inner: 16, head: node, layers_pre_mp: 0, layers_post_mp: 1}
train: {train_parts: 8, neighbor_sizes: [5, 5], batch_size: 4000}
optim: {optimizer: adam, base_lr: 0.01, max_epoch: 2}
accelerator: cpu
"""


@pytest.fixture(scope="module")
def large_graph(tmp_path_factory) -> Path:
    """A generated graph of 20,000 nodes, and the file that describes the run."""
    folder = tmp_path_factory.mktemp("large")
    store = power_law(folder / "arrays", 20_000, 100_000, 0, columns=8, classes=4, noise=1.0)
    fields = {"edge_index": store.edge_index.long(), "x": store.x.float(), "y": store.y.long()}
    torch.save(fields, folder / "graph.pt")
    (folder / "gcn.yaml").write_text(LARGE.replace("graph.pt", str(folder / "graph.pt")))
    return folder / "gcn.yaml"


@pytest.mark.parametrize("sampler", ["random_node", "neighbor"])
def test_a_gnn_on_a_large_graph(sampler: str, large_graph: Path, tmp_path: Path) -> None:
    lines = []
    for evaluation in ("blocks", "full_batch"):
        own = ["out_dir", str(tmp_path / evaluation), "train.sampler", sampler, "val.sampler", evaluation]
        lines.append(run(load_config(large_graph, own)))
    assert lines[0] is not None
    assert lines[1] is not None
    for split in ("val", "test"):
        assert lines[0][split] == pytest.approx(lines[1][split], rel=1e-3)
    assert lines[0]["test"]["accuracy"] > 0.5  # a quarter by chance
