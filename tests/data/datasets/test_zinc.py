from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch_geometric.datasets import ZINC as Reference

from graphbench.data.datasets import zinc
from graphbench.data.datasets.zinc import ZINC
from graphbench.data.files.roots import Roots
from graphbench.data.store import GraphStore
from graphbench.errors import UserError
from tests.dataset_case import PublishedCounts, TrainingCase


@pytest.mark.slow
def test_published_statistics(shared_roots: Roots, no_reading: Callable[..., None]) -> None:
    loaded = ZINC("subset").load(shared_roots)  # the card checks 12,000 graphs, 277,864 nodes, 597,970 edges
    store, splits = loaded.store, loaded.published["standard"][0]
    assert [len(part) for part in splits.parts().values()] == [10_000, 1_000, 1_000]
    assert store.y.shape == (12_000, 1)
    assert store.y[splits.train].mean().item() == pytest.approx(0.0153, abs=1e-4)
    assert store.y[splits.train].std().item() == pytest.approx(2.0109, abs=1e-4)
    assert (store.y.min().item(), store.y.max().item()) == pytest.approx((-42.04, 3.80), abs=0.005)
    assert store.x.unique().tolist() == list(range(21))
    assert store.edge_attr.unique().tolist() == [1, 2, 3]
    no_reading(zinc, "_read")
    assert ZINC("subset").load(shared_roots).store.fingerprint == store.fingerprint
    with pytest.raises(AssertionError, match="_read was called"):
        ZINC("full").load(shared_roots)


def _write_tiny(folder: Path) -> None:
    """Five molecules per part, of which the subset takes 3 and 0."""
    generator = torch.Generator().manual_seed(0)
    folder.mkdir(parents=True)
    for part in ("train", "val", "test"):
        molecules = []
        for number in range(5):
            bonds = torch.triu(torch.randint(0, 4, (number + 2, number + 2), generator=generator), 1)
            molecules.append(
                {
                    "num_atom": number + 2,
                    "atom_type": torch.randint(0, 28, (number + 2,), generator=generator).to(torch.int8),
                    "bond_type": (bonds + bonds.T).to(torch.int8),
                    "logP_SA_cycle_normalized": torch.randn(1, generator=generator),
                }
            )
        (folder / f"{part}.pickle").write_bytes(pickle.dumps(molecules))
        (folder / f"{part}.index").write_text("3,0\n")


@pytest.mark.parametrize("name", ["subset", "full"])
@pytest.mark.usefixtures("any_size")
def test_same_graphs_as_pyg_reads(name: str, roots: Roots, tmp_path: Path) -> None:
    _write_tiny(roots.directory / "ZINC/raw")
    shutil.copytree(roots.directory / "ZINC/raw", tmp_path / "pyg/raw")
    parts = [Reference(str(tmp_path / "pyg"), subset=name == "subset", split=part) for part in ("train", "val", "test")]
    expected = GraphStore.from_graphs([graph for part in parts for graph in part])
    loaded = ZINC(name).load(roots)
    for field in ("node_ptr", "edge_ptr", "edge_index", "x", "edge_attr", "y"):
        torch.testing.assert_close(getattr(loaded.store, field), getattr(expected, field), check_dtype=False)
    sizes = [len(part) for part in parts]
    assert [len(part) for part in loaded.published["standard"][0].parts().values()] == sizes
    batch = loaded.store.gather([1, 0])
    assert (batch.x.dtype, batch.edge_attr.dtype, batch.y.dtype) == (torch.int64, torch.int64, torch.float32)


def test_messages(roots: Roots) -> None:
    _write_tiny(roots.directory / "ZINC/raw")
    with pytest.raises(UserError, match=r"not the published ZINC graphs: graphs 6 instead of 12000"):
        ZINC("subset").load(roots)
    (roots.directory / "ZINC/raw/val.index").write_text("3,7\n")
    with pytest.raises(UserError, match=r"val.index names molecule 7, but .*val.pickle holds 5"):
        ZINC("subset").load(roots)


def test_card() -> None:
    card = ZINC("subset").card
    assert (card.metric, card.maximize, card.out_dim) == ("mae", False, 1)
    assert card.vocabularies == {"node": (28,), "edge": (4,)}


TRAINING_CASES = {
    "ZINC": TrainingCase(
        "gnnbench/gps-zinc.yaml",
        real="ZINC",
        # RWSE would be computed for all 12,000 molecules.
        overrides={"posenc_RWSE.enable": False, "dataset.node_encoder_name": "TypeDictNode"},
        slow=True,
    )
}
PUBLISHED_COUNTS = {"PyG-ZINC/subset": PublishedCounts(12000, 277864, 597970, 1, None, (10000, 1000, 1000), slow=True)}
