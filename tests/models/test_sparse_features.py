"""Models read sparse rows as they read the dense features: same predictions, same gradients."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch import nn

from graphbench.blockwise.model import BlockwiseModel
from graphbench.blockwise.stored import StoredBlocks
from graphbench.config import load_config
from graphbench.data.single_graph import node_store
from graphbench.data.store import GraphStore
from graphbench.factory.data import declared_info, read_data
from graphbench.factory.model import build_model
from graphbench.structures import SparseRows
from graphbench.train.forward import BatchAdapter, OpaqueBatch
from graphbench.transforms.shortest_paths import ShortestPaths
from tests.paths import ROOT

CONFIGS = ROOT / "configs/nodes"
CORA = sorted(path.stem for path in CONFIGS.glob("*-cora.yaml"))
NODES, COLUMNS = 60, 90

CHANGES: dict[str, dict[str, object]] = {
    "glognn-cora": {"gt.GloGNN.nodes": NODES},
    "linkx-cora": {"gt.LINKX.nodes": NODES},
    "nagphormer-cora": {"dataset.node_encoder_name": "LinearNode"},
    "ans-gt-cora": {"gt.layers": 2},
    **{f"graphormer-{size}-cora": {"graphormer.num_layers": 2} for size in ("small", "smaller", "ultrasmall")},
}
"""What a configuration needs to be built for the small graph: its size, no eigenvectors; layers that read no rows."""

FALLS_BACK = {
    "gin": ("gcn-cora", {"gt.layer_type": "GIN+None"}),
    "graphgym_concat": (
        "mlp-cora",
        {"gnn.layers_pre_mp": 0, "gnn.layers_mp": 2, "gnn.layer_type": "gcnconv", "gnn.stage_type": "skipconcat"},
    ),
    "node_encoder_norm": ("gcn-cora", {"dataset.node_encoder": True, "dataset.node_encoder_name": "LinearNode"}),
    "jknet_gin": ("jknet-cora", {"gnn.layer_type": "GIN"}),
    "appnp_raw": ("appnp-cora", {"gnn.layers_pre_mp": 0}),
    "h2gcn_raw": ("h2gcn-cora", {"gnn.layers_pre_mp": 0}),
}
READS = {
    "sage": ("gcn-cora", {"gt.layer_type": "SAGE+None"}),
    "stem": ("gcn-cora", {"gt.TwoBranch.local_stem": True}),
    "graphgym_gat": ("mlp-cora", {"gnn.layers_pre_mp": 0, "gnn.layers_mp": 2, "gnn.layer_type": "gatconv"}),
    "gps_of_sums": ("gps-performer-cora", {"gt.layer_type": "GCN+SGFormer", "gt.n_heads": 1}),
    "sgc_mlp_head": ("sgc-cora", {"gnn.layers_post_mp": 2}),
    "linear_encoder": (
        "gcn-cora",
        {"dataset.node_encoder": True, "dataset.node_encoder_name": "LinearNode", "dataset.node_encoder_bn": False},
    ),
}


def stores() -> tuple[GraphStore, GraphStore]:
    """One small graph, its features sparse and dense."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(NODES, COLUMNS, generator=generator, dtype=torch.float64)
    x = x * (torch.rand(NODES, COLUMNS, generator=generator) < 0.1)
    edge_index = torch.randint(0, NODES, (2, 150), generator=generator)
    y = torch.randint(0, 7, (NODES,), generator=generator)
    return node_store(SparseRows.of(x), edge_index, y), node_store(x, edge_index, y)


def model_of(name: str, change: dict[str, object], columns: int = COLUMNS) -> nn.Module:
    config = load_config(CONFIGS / f"{name}.yaml", [str(part) for pair in change.items() for part in pair])
    info = declared_info(config)
    assert info is not None
    torch.manual_seed(1)
    object.__setattr__(info, "node_in", columns)
    return build_model(config, info).double()


@contextmanager
def never_dense(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refused(rows: SparseRows) -> torch.Tensor:
        raise AssertionError(f"{tuple(rows.shape)} made dense")

    with monkeypatch.context() as patch:
        patch.setattr(SparseRows, "dense", refused)
        yield


def assert_alike(model: nn.Module, ours: GraphStore, theirs: GraphStore) -> None:
    """Predictions in evaluation; loss and the gradient of every parameter in training with the same random stream."""
    found = []
    for store in (ours, theirs):
        each, batch = copy.deepcopy(model), store.gather([0])
        with torch.no_grad():
            prediction = each.eval()(batch)
        torch.manual_seed(5)
        out = each.train()(batch)
        (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)).sum().backward()
        gradients = {name: p.grad for name, p in each.named_parameters() if p.grad is not None}
        found.append({"prediction": prediction, "output": out.detach(), **gradients})
    assert found[0].keys() == found[1].keys()
    for name, value in found[1].items():
        error = (found[0][name] - value).abs().max() / value.abs().max().clamp(min=1)
        assert error <= 1e-12, f"{name}: {error:.1e}"


@pytest.mark.parametrize("name", CORA)
def test_models_of_node_classification(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = (each.with_encodings(pairs=ShortestPaths()(each)["distance"]) for each in stores())
    with never_dense(monkeypatch):
        assert_alike(model_of(name, CHANGES.get(name, {})), ours, theirs)


@pytest.mark.parametrize("case", READS)
def test_further_layers_that_read_sparse_rows(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = stores()
    with never_dense(monkeypatch):
        assert_alike(model_of(*READS[case]), ours, theirs)


@pytest.mark.parametrize("case", FALLS_BACK)
def test_what_cannot_read_them_receives_dense_features(case: str) -> None:
    assert_alike(model_of(*FALLS_BACK[case]), *stores())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sgformer-cora", "sgc-cora", "gat-cora"])
def test_on_real_cora(name: str, data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(choice: str) -> GraphStore:
        arguments = ["dataset.dir", str(data_root), "dataset.sparse_features", choice]
        return read_data(load_config(CONFIGS / f"{name}.yaml", arguments)).store

    ours, theirs = read("auto"), read("never")
    assert isinstance(ours.x, SparseRows)
    ours, theirs = (each.replace(x=each.x.to(torch.float64)) for each in (ours, theirs))
    with never_dense(monkeypatch):
        assert_alike(model_of(name, {}, 1433), ours, theirs)


BLOCKWISE = ["sgformer-cora", "gcn-cora", "gat-cora", "mlp-cora"]


@pytest.mark.parametrize("name", [*BLOCKWISE, *FALLS_BACK, *READS])
def test_block_by_block(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = stores()
    model = model_of(*(FALLS_BACK | READS).get(name, (name, {}))).eval()
    if not isinstance(model, BlockwiseModel):
        pytest.skip(f"{type(model).__name__} is not evaluated block by block")
    with torch.no_grad():
        expected = model(theirs.gather([0]))
        if name in FALLS_BACK:
            found = model.forward_blockwise(StoredBlocks(ours, max_nodes=25))
        else:
            with never_dense(monkeypatch):
                found = model.forward_blockwise(StoredBlocks(ours, max_nodes=25))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_weights_of_another_type() -> None:
    ours, theirs = stores()
    model = model_of("sgformer-cora", {}).bfloat16().eval()
    carried = BatchAdapter(model, torch.bfloat16)
    with torch.no_grad():
        found, expected = (carried(OpaqueBatch(each.gather([0])))[0] for each in (ours, theirs))
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, expected, rtol=0.05, atol=0.05)


def test_mixed_precision() -> None:
    ours, theirs = (each.replace(x=each.x.to(torch.float32)) for each in stores())
    model = model_of("sgformer-cora", {}).float().eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found, expected = (model(each.gather([0])) for each in (ours, theirs))
    torch.testing.assert_close(found.float(), expected.float(), rtol=0.05, atol=0.05)
