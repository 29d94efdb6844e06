from __future__ import annotations

import dataclasses
import gzip
import pickle
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graphbench.data.datasets import peptides
from graphbench.data.datasets.ogb import OGB
from graphbench.data.files.molecules import molecules
from graphbench.data.files.roots import Roots
from graphbench.errors import UserError
from tests import raw_files
from tests.dataset_case import PublishedCounts, TrainingCase
from tests.raw_files import TOTAL, part_ranges

SMILES = ["NCC(=O)O", "C", "NC(C)C(=O)O"]
SPLIT = {"train": np.array([0, 2]), "val": np.array([1]), "test": np.array([], dtype=np.int64)}


@pytest.mark.slow
@pytest.mark.exhaustive  # a minute to read 15,535 molecules
def test_published_statistics(shared_roots: Roots, no_reading: Callable[..., None]) -> None:
    pytest.importorskip("rdkit")
    loaded = OGB("peptides-functional").load(shared_roots)  # the card checks 2,344,859 nodes, 4,773,974 edges
    store, splits = loaded.store, loaded.published["standard"][0]
    assert [len(part) for part in splits.parts().values()] == [10_873, 2_331, 2_331]
    nodes = [int(store.sizes[part].sum()) for part in splits.parts().values()]
    assert nodes == [1_647_684, 348_441, 348_734]
    assert store.y.sum(0).tolist() == [1378, 545, 995, 969, 9745, 3077, 1662, 2866, 299, 4044]
    no_reading(peptides, "molecules")
    assert OGB("peptides-functional").load(shared_roots).store.fingerprint == store.fingerprint


def _counted(smiles: list[str], what: str) -> dict[str, np.ndarray]:
    """Graphs of the right sizes, with zeros for everything else: atoms and bonds can be counted without chemistry."""
    nodes, edges = np.zeros((2, len(smiles)), dtype=np.int64)
    for number, text in enumerate(smiles):
        nodes[number] = len(re.findall(r"\[[^\]]*\]|Br|Cl|[BCNOSPFIbcnops]", text))
        rings = len(re.findall(r"%\d\d|\d", re.sub(r"\[[^\]]*\]", "", text))) // 2
        edges[number] = 2 * (nodes[number] - text.count(".") - 1 + rings)
    return {
        "nodes": nodes,
        "edges": edges,
        "edge_index": np.zeros((2, edges.sum()), dtype=np.int32),
        "x": np.zeros((nodes.sum(), 9), dtype=np.uint8),
        "edge_attr": np.zeros((edges.sum(), 3), dtype=np.uint8),
    }


def test_the_real_table_has_the_published_statistics(shared_roots: Roots, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peptides, "molecules", _counted)
    roots = dataclasses.replace(shared_roots, cache=shared_roots.directory / "cache")  # of these zeros only
    loaded = OGB("peptides-functional").load(roots)  # the card checks 2,344,859 nodes, 4,773,974 edges
    splits = loaded.published["standard"][0]
    assert [len(part) for part in splits.parts().values()] == [10_873, 2_331, 2_331]
    assert loaded.store.y.sum(0).tolist() == [1378, 545, 995, 969, 9745, 3077, 1662, 2866, 299, 4044]


def test_atoms_and_bonds_of_the_real_table_as_rdkit_counts_them(data_root: Path) -> None:
    pytest.importorskip("rdkit")
    pandas = pytest.importorskip("pandas")
    table = pandas.read_csv(data_root / "peptides-functional/raw/peptide_multi_class_dataset.csv.gz", nrows=300)
    smiles = table["smiles"].tolist()
    read, counted = molecules(smiles, "peptides"), _counted(smiles, "peptides")
    assert read["nodes"].tolist() == counted["nodes"].tolist()
    assert read["edges"].tolist() == counted["edges"].tolist()


def _write(
    folder: Path, table: str, split: str, columns: dict[str, list[str]], smiles: Any = SMILES, parts: Any = SPLIT
) -> None:
    (folder / "raw").mkdir(parents=True)
    rows = zip(smiles, *columns.values(), strict=True)
    text = "\n".join([",".join(["smiles", *columns]), *(",".join(row) for row in rows)])
    (folder / "raw" / table).write_bytes(gzip.compress(text.encode()))
    (folder / split).write_bytes(pickle.dumps(parts))


@pytest.mark.usefixtures("any_size")
def test_eleven_shapes(roots: Roots) -> None:
    pytest.importorskip("rdkit")
    columns = {name: [str(row + column / 16) for row in range(3)] for column, name in enumerate(peptides._SHAPES)}
    backwards = dict(reversed(list(columns.items())))  # columns are found by name
    _write(
        roots.directory / "peptides-structural", "peptide_structure_normalized_dataset.csv.gz",
        "splits_random_stratified_peptide_structure.pickle", backwards,
    )  # fmt: skip
    loaded = OGB("peptides-structural").load(roots)
    expected = torch.arange(3)[:, None] + torch.arange(11)[None] / 16
    torch.testing.assert_close(loaded.store.y, expected)
    assert loaded.store.sizes.tolist() == [5, 1, 6]
    assert [part.tolist() for part in loaded.published["standard"][0].parts().values()] == [[0, 2], [1], []]


@pytest.mark.usefixtures("any_size")
def test_ten_labels(roots: Roots) -> None:
    pytest.importorskip("rdkit")
    labels = [f'"{[int(column == row) for column in range(10)]}"' for row in range(3)]
    folder = roots.directory / "peptides-functional"
    _write(folder, "peptide_multi_class_dataset.csv.gz", "splits_random_stratified_peptide.pickle", {"labels": labels})
    assert torch.equal(OGB("peptides-functional").load(roots).store.y, torch.eye(10)[:3])
    (folder / "raw/peptide_multi_class_dataset.csv.gz").write_bytes(gzip.compress(b"smiles,label\nC,1\n"))
    with pytest.raises(UserError, match="has no column labels; columns there: smiles, label"):
        OGB("peptides-functional").load(roots)


def test_cards() -> None:
    functional, structural = (OGB(f"peptides-{name}").card for name in ("functional", "structural"))
    assert (functional.metric, functional.maximize, functional.out_dim) == ("ap", True, 10)
    assert (structural.metric, structural.maximize, structural.out_dim) == ("mae", False, 11)
    assert functional.sha256
    assert set(functional.sha256) == set(functional.files)


def write_training_files(name: str, columns: dict[str, list[str]], root: Path) -> None:
    split = {part: numbers.tolist() for part, numbers in part_ranges().items()}
    facts = peptides.FACTS[name]
    _write(root / name, facts.table, facts.split, columns, raw_files.SMILES, split)


LABELS = {"labels": [f'"{[(row + column) % 3 % 2 for column in range(10)]}"' for row in range(TOTAL)]}
SHAPES = {name: [f"{row / 7:.3f}" for row in range(TOTAL)] for name in peptides._SHAPES}
TRAINING_CASES = {
    "Peptides-func": TrainingCase(
        "lrgb/gine-peptides-func.yaml", write=partial(write_training_files, "peptides-functional", LABELS)
    ),
    "Peptides-struct": TrainingCase(
        "lrgb/gine-peptides-struct.yaml", write=partial(write_training_files, "peptides-structural", SHAPES)
    ),
}
PUBLISHED_COUNTS = {
    "OGB/peptides-functional": PublishedCounts(15535, 2344859, 4773974, 9, None, (10873, 2331, 2331), exhaustive=True)
}
