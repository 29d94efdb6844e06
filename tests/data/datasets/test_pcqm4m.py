from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from graphbench.data.datasets import pcqm4m
from graphbench.data.datasets.ogb import OGB
from graphbench.data.datasets.pcqm4m import PCQM4M
from graphbench.data.files.roots import Roots
from graphbench.errors import UserError
from tests import raw_files
from tests.dataset_case import TrainingCase
from tests.raw_files import SMILES, made, part_ranges

PARTS = {"train": 3_378_606, "valid": 73_545, "test-dev": 147_037, "test-challenge": 147_432}


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("PCQM4Mv2-full", [3_228_606, 150_000, 73_545]),
        ("PCQM4Mv2-subset", [322_860, 50_000, 73_545]),
        ("PCQM4Mv2-inference", [73_545, 147_037, 147_432]),
    ],
)
def test_selections_of_the_published_parts(name: str, sizes: list[int]) -> None:
    bounds = np.cumsum([0, *PARTS.values()])
    parts = {part: np.arange(low, high) for part, low, high in zip(PARTS, bounds, bounds[1:], strict=False)}
    selected = PCQM4M(name)._select(parts)
    assert [len(part) for part in selected] == sizes
    assert sum(sizes) == OGB(name).card.statistics["graphs"]
    assert np.bincount(np.concatenate(selected)).max() == 1
    if name != "PCQM4Mv2-inference":
        order = np.random.default_rng(42).permutation(PARTS["train"])
        assert (selected[1] == order[: sizes[1]]).all()
        assert (selected[0] == order[150_000 : 150_000 + sizes[0]]).all()


def _write_tiny(roots: Roots) -> None:
    folder = roots.directory / "pcqm4m-v2"
    (folder / "raw").mkdir(parents=True)
    rows = ["idx,smiles,homolumogap", *(f"{i},{'C' * (i + 1)},{i / 2}" for i in range(6)), "6,CO,", "7,OCO,"]
    (folder / "raw/data.csv.gz").write_bytes(gzip.compress("\n".join(rows).encode()))
    parts = {"train": [0, 1, 2, 3], "valid": [4, 5], "test-dev": [6], "test-challenge": [7]}
    torch.save({name: np.asarray(part) for name, part in parts.items()}, folder / "split_dict.pt")


@pytest.mark.usefixtures("any_size")
def test_only_molecules_of_the_parts_are_read(roots: Roots, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rdkit")
    monkeypatch.setattr(pcqm4m, "_VALIDATION", 1)
    _write_tiny(roots)
    loaded = OGB("PCQM4Mv2-full").load(roots)
    train = np.random.default_rng(42).permutation(4)
    assert loaded.store.sizes.tolist() == [*(train[1:] + 1).tolist(), train[0] + 1, 5, 6]
    assert [len(part) for part in loaded.published["standard"][0].parts().values()] == [3, 1, 2]
    torch.testing.assert_close(loaded.store.y[:, 0], (loaded.store.sizes - 1) / 2, check_dtype=False)


@pytest.mark.usefixtures("any_size")
def test_unknown_targets_of_the_challenge(roots: Roots) -> None:
    pytest.importorskip("rdkit")
    _write_tiny(roots)
    loaded = OGB("PCQM4Mv2-inference").load(roots)
    assert loaded.store.sizes.tolist() == [5, 6, 2, 3]
    assert loaded.store.y.isnan()[:, 0].tolist() == [False, False, True, True]
    torch.save({"train": np.arange(3)}, roots.directory / "pcqm4m-v2/split_dict.pt")
    with pytest.raises(UserError, match="does not hold the parts train, valid, test-dev, test-challenge"):
        OGB("PCQM4Mv2-inference").load(roots)


def write_training_files(root: Path) -> None:
    """The whole training part is 150,000 molecules longer, see ``replaced``."""
    folder = made(root / "pcqm4m-v2")
    rows = ["idx,smiles,homolumogap", *(f"{number},{smiles},{number / 4}" for number, smiles in enumerate(SMILES))]
    (made(folder / "raw") / "data.csv.gz").write_bytes(gzip.compress("\n".join(rows).encode()))
    ranges = part_ranges()
    parts = {"train": np.concatenate([ranges["train"], ranges["val"]]), "valid": ranges["test"]}
    torch.save(parts | {"test-dev": np.array([0]), "test-challenge": np.array([1])}, folder / "split_dict.pt")


TRAINING_CASES = {
    "PCQM4Mv2": TrainingCase(
        "ogb/gps-pcqm4m-small.yaml",
        write=write_training_files,
        overrides={"gt.dim_hidden": 32, "gnn.dim_inner": 32},
        replaced=((pcqm4m, "_VALIDATION", raw_files.PARTS["val"]),),
    )
}
