from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from graphbench.data.datasets.aqsol import AQSOL
from graphbench.data.files.roots import Roots
from tests.dataset_case import TrainingCase
from tests.raw_files import PARTS, made, ring

PAIR = (np.array([1, 64]), np.array([2, 2]), np.array([[0, 1], [1, 0]]), -1.5)
LISTED = ([3, 1, 1], [1, 1, 4, 4], [[0, 1, 1, 2], [1, 0, 2, 1]], [0.25])
NO_BOND = (np.array([9]), np.array([]), np.array([[], []]), 0.0)
LAST_ATOM_ALONE = (np.array([1, 1, 9]), np.array([1, 1]), np.array([[0, 1], [1, 0]]), 0.0)


@pytest.mark.usefixtures("any_size")
def test_molecules_without_bonds_are_left_out(roots: Roots) -> None:
    folder = roots.directory / "AQSOL/raw"
    folder.mkdir(parents=True)
    content = {"train": [PAIR, NO_BOND, LISTED], "val": [LAST_ATOM_ALONE, LISTED], "test": [PAIR]}
    for part, molecules in content.items():
        (folder / f"{part}.pickle").write_bytes(pickle.dumps(molecules))
    loaded = AQSOL("none").load(roots)
    assert loaded.store.sizes.tolist() == [2, 3, 3, 2]
    assert [part.tolist() for part in loaded.published["standard"][0].parts().values()] == [[0, 1], [2], [3]]
    batch = loaded.store.gather([0, 1])
    assert batch.x.tolist() == [[1], [64], [3], [1], [1]]
    assert batch.edge_index.tolist() == [[0, 1, 2, 3, 3, 4], [1, 0, 3, 2, 4, 3]]
    assert batch.edge_attr.tolist() == [[2], [2], [1], [1], [4], [4]]
    torch.testing.assert_close(batch.y, torch.tensor([[-1.5], [0.25]]))


def test_card() -> None:
    card = AQSOL("AQSOL").card
    assert (card.metric, card.vocabularies) == ("mae", {"node": (65,), "edge": (5,)})


def write_training_files(root: Path) -> None:
    for part, count in PARTS.items():
        molecules = []
        for number in range(count):
            edges = ring(3 + number).numpy()
            atoms, bonds = np.full(3 + number, number), np.ones(edges.shape[1], dtype=np.int64)
            molecules.append((atoms, bonds, edges, -0.5 * number))
        (made(root / "AQSOL/raw") / f"{part}.pickle").write_bytes(pickle.dumps(molecules))


TRAINING_CASES = {"AQSOL": TrainingCase("gnnbench/gps-aqsol.yaml", write=write_training_files)}
