from __future__ import annotations

import builtins
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphbench.data.files import molecules as module
from graphbench.data.files.molecules import molecules
from graphbench.errors import UserError
from tests.paths import ROOT

# charges, chirality, double bonds with geometry, rings, aromatics, metals, radicals, a dummy atom, no bond at all
SMILES = [
    "CC(=O)Oc1ccccc1C(=O)O",
    "C",
    "C/C=C/C",
    "C/C=C\\C",
    "N[C@@H](C)C(=O)O",
    "N[C@H](C)C(=O)O",
    "[NH4+].[Cl-]",
    "[Na+].[O-]S(=O)(=O)c1ccccc1",
    "F[P-](F)(F)(F)(F)F",
    "C[CH2]",
    "*C#N",
    "c1ccc2[nH]ccc2c1",
    "[U]",
]


def test_same_columns_as_ogb() -> None:
    pytest.importorskip("rdkit")
    smiles2graph = pytest.importorskip("ogb.utils").smiles2graph
    expected = [smiles2graph(text) for text in SMILES]
    read = molecules(SMILES, "test")
    assert read["nodes"].tolist() == [graph["num_nodes"] for graph in expected]
    assert read["edges"].tolist() == [graph["edge_index"].shape[1] for graph in expected]
    assert np.array_equal(read["x"], np.concatenate([graph["node_feat"] for graph in expected]))
    assert np.array_equal(read["edge_index"], np.concatenate([graph["edge_index"] for graph in expected], axis=1))
    assert np.array_equal(read["edge_attr"], np.concatenate([graph["edge_feat"] for graph in expected]))
    assert (read["x"].dtype, read["edge_attr"].dtype) == (np.uint8, np.uint8)


def test_contacts_are_read_from_the_atoms() -> None:
    pytest.importorskip("rdkit")
    # atoms 0 and 4 are contact 0, atoms 0 and 5 contact 1; hydrogens stay where they are written
    text = "C([H])CCCCO |atomProp:0.contact.0&#59;1:4.contact.0:5.contact.1|"
    read = molecules([text, "CC", "CCC |atomProp:2.contact.0:0.contact.0|"], "test", contacts=True)
    assert read["nodes"].tolist() == [7, 2, 3]
    assert read["num_contacts"].tolist() == [2, 0, 1]
    assert read["contacts"].tolist() == [[0, 0, 0], [4, 5, 2]]
    assert read["x"][1, 0] == 0  # hydrogen


def test_nothing_to_read() -> None:
    pytest.importorskip("rdkit")
    read = molecules([], "test", contacts=True)
    assert {name: value.shape for name, value in read.items()} == {
        "nodes": (0,), "edges": (0,), "edge_index": (2, 0), "x": (0, 9), "edge_attr": (0, 3), "num_contacts": (0,),
        "contacts": (2, 0),
    }  # fmt: skip


def test_several_processes_give_the_same(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("rdkit")
    alone = molecules(SMILES, "test")
    monkeypatch.setattr(module, "_CHUNK", 1)
    monkeypatch.setattr(module, "available_cores", lambda: 2)
    with caplog.at_level(logging.INFO):
        together = molecules(SMILES, "the set")
    for name, value in alone.items():
        assert np.array_equal(together[name], value), name
    assert "the set: 50 % of 13 molecules read" in caplog.text


def test_what_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rdkit")
    monkeypatch.setattr(module, "_CHUNK", 2)
    with pytest.raises(UserError, match=r"the set: RDKit cannot read SMILES number 3, 'C1CC'"):
        molecules(["C", "C", "C", "C1CC"], "the set")


def test_rdkit_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without(name: str, *args: Any) -> Any:
        if name.split(".")[0] == "rdkit":
            raise ImportError(name)
        return imported(name, *args)

    for name in [loaded for loaded in sys.modules if loaded.split(".")[0] == "rdkit"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match=r"SMILES of the set needs RDKit: pip install 'graphbench-gt\[molecules\]'"):
        molecules(["C"], "the set")


def test_a_script_without_a_guard_does_not_start_over(tmp_path: Path) -> None:
    script = tmp_path / "own.py"
    script.write_text(
        "from graphbench.data.files.molecules import molecules\n"
        "print('started', flush=True)\n"
        "print(molecules(['CCO'] * 9000, 'x')['nodes'].sum())\n"
    )
    root = ROOT
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.split() == ["started", "27000"]
