from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.datasets.planetoid import Planetoid
from graphbench.data.files.planetoid import read_planetoid
from graphbench.data.files.roots import Roots
from graphbench.data.split_protocols import make_splits
from graphbench.data.splits import SplitRequest
from graphbench.errors import UserError
from tests.dataset_case import PublishedCounts, TrainingCase


def _load(name: str, data_root: Path, tmp_path: Path, **arguments: Any) -> LoadedDataset:
    return Planetoid(name, **arguments).load(Roots(tmp_path / "own", (data_root,), tmp_path / "cache"))


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "features", "classes", "train"),
    [("Cora", 2708, 10556, 1433, 7, 140), ("CiteSeer", 3327, 9104, 3703, 6, 120)],
)
def test_published_counts_and_public_split(
    name: str, nodes: int, edges: int, features: int, classes: int, train: int, data_root: Path, tmp_path: Path
) -> None:
    loaded = _load(name, data_root, tmp_path)
    store = loaded.store
    assert (store.num_graphs, store.num_nodes, store.num_edges) == (1, nodes, edges)
    assert store.x.shape == (nodes, features)
    assert set(store.x.unique().tolist()) == {0.0, 1.0}
    assert int(store.y.max()) + 1 == classes == loaded.card.out_dim
    public = make_splits("standard", SplitRequest(loaded.num_examples, published=loaded.published))
    assert [len(part) for part in public.parts().values()] == [train, 500, 1000]
    assert torch.bincount(store.y[public.train]).tolist() == [20] * classes
    assert not (tmp_path / "own").exists()  # nothing is copied, nothing is written


@pytest.mark.parametrize("name", ["Cora", "CiteSeer"])
def test_the_files_are_read_as_pyg_reads_them(name: str, data_root: Path, tmp_path: Path) -> None:
    read_planetoid_data = pytest.importorskip("torch_geometric.io").read_planetoid_data
    folder = data_root / "Planetoid" / name / "raw"
    theirs, ours = read_planetoid_data(str(folder), name.lower()), read_planetoid(folder, name.lower())
    masks = (theirs.train_mask, theirs.val_mask, theirs.test_mask)
    expected = [theirs.x, theirs.edge_index, theirs.y, *(mask.nonzero().view(-1) for mask in masks)]
    for found, tensor in zip([*ours[:3], *ours.split], expected, strict=True):
        assert torch.equal(found, tensor)


def test_geom_gcn_splits_where_their_files_are(data_root: Path, tmp_path: Path) -> None:
    loaded = _load("Cora", data_root, tmp_path)
    splits = [
        make_splits(
            "geom-gcn", SplitRequest(2708, index=i, published=loaded.published), allowed=loaded.card.split_modes
        )
        for i in range(10)
    ]
    assert len({tuple(split.test.tolist()) for split in splits}) == 10
    # 48/32/20 % of the largest component, 2,485 nodes
    assert {tuple(len(part) for part in split.parts().values()) for split in splits} == {(1192, 796, 497)}


def test_sgformer_protocol_on_the_real_labels(data_root: Path, tmp_path: Path) -> None:
    loaded = _load("Cora", data_root, tmp_path)
    made = make_splits("random-class", SplitRequest(2708, labels=loaded.store.y, seed=123))
    assert [len(part) for part in made.parts().values()] == [140, 500, 1000]


def test_normalised_features_sum_to_one(data_root: Path, tmp_path: Path) -> None:
    sums = _load("CiteSeer", data_root, tmp_path, normalize_features=True).store.x.sum(1)
    assert set(sums.round(decimals=5).tolist()) == {0.0, 1.0}  # CiteSeer has nodes without words


def test_both_directions_no_self_loops(data_root: Path, tmp_path: Path) -> None:
    source, target = _load("Cora", data_root, tmp_path).store.gather([0]).edge_index
    assert (source != target).all()
    assert set(zip(source.tolist(), target.tolist())) == set(zip(target.tolist(), source.tolist()))


def test_standard_can_be_the_split_of_the_exphormer_release(data_root: Path, tmp_path: Path) -> None:
    loaded = _load("CiteSeer", data_root, tmp_path, train_percent=0.6)
    y = loaded.store.y
    made = make_splits("standard", SplitRequest(len(y), labels=y, seed=3, published=loaded.published))
    torch.manual_seed(3)  # the release draws from the global generator, first thing after seeding
    train = torch.zeros(len(y), dtype=torch.bool)
    for label in range(6):
        members = (y == label).nonzero().view(-1)
        train[members[torch.randperm(len(members))[: int(len(members) * 0.6)]]] = True
    rest = (~train).nonzero().view(-1)
    rest = rest[torch.randperm(len(rest))]
    assert sorted(made.train.tolist()) == train.nonzero().view(-1).tolist()
    assert torch.equal(made.val, rest[: len(rest) // 2])
    assert torch.equal(made.test, rest[len(rest) // 2 :])
    with pytest.raises(ValueError, match="train_percent must lie between 0 and 1, received 60"):
        Planetoid("Cora", train_percent=60)


def test_edges_of_the_exphormer_release(data_root: Path, tmp_path: Path) -> None:
    plain = _load("CiteSeer", data_root, tmp_path).store.gather([0]).edge_index
    store = _load("CiteSeer", data_root, tmp_path, add_reverse_edges=True, add_self_loops=True).store
    expected = torch.cat([plain, plain.flip(0), plain.unique().expand(2, -1)], dim=1)
    assert torch.equal(store.gather([0]).edge_index, expected)


def test_card_needs_no_data() -> None:
    builder = Planetoid("PubMed")
    assert isinstance(builder, DatasetBuilder)
    info = builder.card.info()
    assert (info.node_in, info.out_dim, info.task, info.metric, info.maximize) == (500, 3, "node", "accuracy", True)


def test_damaged_raw_file_is_refused_before_it_is_read(data_root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "own" / "Planetoid" / "Cora" / "raw"
    shutil.copytree(data_root / "Planetoid" / "Cora" / "raw", copy)
    os.chmod(copy, 0o755)
    (copy / "ind.cora.graph").unlink()
    (copy / "ind.cora.graph").write_bytes(b"cos\nabort\n(tR.")  # a pickle that would end the process
    with pytest.raises(UserError, match=r"ind.cora.graph is damaged or of another version"):
        Planetoid("Cora").load(Roots(tmp_path / "own", (), tmp_path / "cache"))


TRAINING_CASES = {"Planetoid": TrainingCase("nodes/sgformer-cora.yaml", real="Planetoid/Cora")}
PUBLISHED_COUNTS = {
    "PyG-Planetoid/Cora": PublishedCounts(1, 2708, 2 * 5278, 1433, 7, (140, 500, 1000)),
    "PyG-Planetoid/CiteSeer": PublishedCounts(1, 3327, 2 * 4552, 3703, 6, (120, 500, 1000)),
    "PyG-Planetoid/PubMed": PublishedCounts(1, 19717, 2 * 44324, 500, 3, (60, 500, 1000)),
}
