from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from graphbench.data.datasets import pcqm_contact
from graphbench.data.datasets.ogb import OGB
from graphbench.data.datasets.pcqm_contact import contact_store
from graphbench.data.files.molecules import molecules
from graphbench.data.files.roots import Roots
from graphbench.data.loading.loader import GraphLoaders
from graphbench.data.loading.process import LoaderProcess
from graphbench.data.splits import Splits
from graphbench.errors import UserError
from tests.dataset_case import TrainingCase
from tests.raw_files import TOTAL, made, part_ranges

CONTACT = "CCCCCCO |atomProp:0.contact.0&#59;1:5.contact.0:6.contact.1|"  # 0-5 and 0-6
NONE = "CCC"
SMALL = "CC |atomProp:1.contact.0:0.contact.0|"  # 0-1


def _local(store: object, graph: int) -> tuple[list[tuple[int, int]], list[int]]:
    batch = store.gather([graph])  # type: ignore[attr-defined]
    return [tuple(pair) for pair in batch.edge_sets["label"].index.T.tolist()], batch.y.tolist()


def test_both_directions_of_every_contact_and_twice_as_many_others() -> None:
    pytest.importorskip("rdkit")
    read = molecules([NONE, CONTACT, NONE, SMALL, CONTACT], "test", contacts=True)
    store = contact_store(read, seed=0)
    assert store.sizes.tolist() == [7, 2, 7]  # without contacts there is nothing to learn
    assert (store.y_level, store.y.dtype) == ("pair", torch.int64)
    assert store.x.shape == (16, 9)
    assert store.gather([1]).edge_index.tolist() == [[0, 1], [1, 0]]
    for graph, true in (
        (0, [(0, 5), (0, 6), (5, 0), (6, 0)]),
        (1, [(0, 1), (1, 0)]),
        (2, [(0, 5), (0, 6), (5, 0), (6, 0)]),
    ):
        pairs, y = _local(store, graph)
        assert pairs[: len(true)] == true
        assert y == [1] * len(true) + [0] * (len(pairs) - len(true))
        others = pairs[len(true) :]
        assert len(set(others)) == len(others)
        assert not set(others) & set(true)
        heads = [head for head, _ in others]
        if graph == 1:  # only the atom itself is left
            assert sorted(others) == [(0, 0), (1, 1)]
        else:
            assert sorted(heads) == [0, 0, 0, 0, 5, 5, 6, 6]
            assert all(0 <= tail < 7 for _, tail in others)
    assert contact_store(read, seed=0).fingerprint == store.fingerprint
    assert contact_store(read, seed=1).fingerprint != store.fingerprint


def test_pairs_of_others_are_drawn_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rdkit")
    read = molecules([CONTACT, SMALL] * 5, "test", contacts=True)
    whole = contact_store(read, seed=0)
    monkeypatch.setattr(pcqm_contact, "_CHUNK", 3)
    pieces = contact_store(read, seed=0)
    for graph in range(10):
        (pairs, y), (expected, _) = _local(pieces, graph), _local(whole, graph)
        assert sum(y) == (2 if graph % 2 else 4)
        assert pairs[: sum(y)] == expected[: sum(y)]
        assert not set(pairs[sum(y) :]) & set(pairs[: sum(y)])
        assert len(pairs) > sum(y)
        assert max(max(pair) for pair in pairs) < pieces.sizes[graph]


def _write_tiny(roots: Roots, split_name: str) -> None:
    folder = roots.directory / "pcqm4m-v2-contact/530k"
    (folder / "raw").mkdir(parents=True)
    chosen = [CONTACT, NONE, SMALL, CONTACT]  # every sixth row
    rows = [text for smiles in chosen for text in (smiles, *["broken("] * 5)]
    (folder / "raw/pcqm4m-contact.tsv.gz").write_bytes(gzip.compress("\n".join(["cxsmiles", *rows]).encode()))
    parts = {"train": [2, 0], "val": [1], "test": []}
    torch.save({name: np.asarray(part, dtype=np.int64) for name, part in parts.items()}, folder / split_name)


@pytest.mark.parametrize(
    ("kind", "split_name"),
    [
        ("shuffle", "530k_shuffle_split_dict.pt"),
        ("num-atoms", "530k_num-atoms_split_dict.pt"),
        ("num-atoms", "530k_num_atoms_split_dict.pt"),
    ],
)
@pytest.mark.usefixtures("any_size")
def test_from_the_published_table(kind: str, split_name: str, roots: Roots) -> None:
    pytest.importorskip("rdkit")
    _write_tiny(roots, split_name)
    loaded = OGB(f"PCQM4Mv2Contact-{kind}").load(roots)
    assert loaded.store.sizes.tolist() == [7, 2, 7]
    splits = loaded.published["standard"][0]
    assert [part.tolist() for part in splits.parts().values()] == [[2, 0], [1], []]
    again = OGB(f"PCQM4Mv2Contact-{kind}").load(roots)  # from the cache, pairs included
    assert again.store.fingerprint == loaded.store.fingerprint
    assert _local(again.store, 1) == _local(loaded.store, 1)
    loaders = GraphLoaders(loaded.store, Splits.of([0], [1], [2]), LoaderProcess(0), batch_size=1, transductive=False)
    batch, _ = next(iter(loaders.train(0)))
    assert batch.y.shape[0] == batch.edge_sets["label"].index.shape[1]


def test_messages(roots: Roots) -> None:
    pytest.importorskip("rdkit")
    _write_tiny(roots, "530k_shuffle_split_dict.pt")
    with pytest.raises(UserError, match="not the published PCQM-Contact graphs: graphs 3 instead of 529434"):
        OGB("PCQM4Mv2Contact-shuffle").load(roots)
    torch.save({"train": np.arange(2)}, roots.directory / "pcqm4m-v2-contact/530k/530k_shuffle_split_dict.pt")
    with pytest.raises(UserError, match="does not hold the parts train, val, test"):
        OGB("PCQM4Mv2Contact-shuffle").load(roots)
    table = roots.directory / "pcqm4m-v2-contact/530k/raw/pcqm4m-contact.tsv.gz"
    table.write_bytes(gzip.compress(b"smiles\nCC\n"))
    with pytest.raises(UserError, match="has no column cxsmiles; columns there: smiles"):
        OGB("PCQM4Mv2Contact-shuffle").load(roots)


def test_card() -> None:
    card = OGB("PCQM4Mv2Contact-shuffle").card
    assert (card.task, card.task_type, card.metric, card.out_dim) == ("link_pred", "classification", "mrr", 1)
    assert not card.transductive


def write_training_files(root: Path) -> None:
    folder = made(root / "pcqm4m-v2-contact/530k")
    rows = ["cxsmiles", *(text for _ in range(TOTAL) for text in (CONTACT, *["CC"] * 5))]  # every sixth is read
    (made(folder / "raw") / "pcqm4m-contact.tsv.gz").write_bytes(gzip.compress("\n".join(rows).encode()))
    torch.save(part_ranges(), folder / "530k_shuffle_split_dict.pt")


TRAINING_CASES = {"PCQM-Contact": TrainingCase("lrgb/gine-pcqm-contact.yaml", write=write_training_files)}
