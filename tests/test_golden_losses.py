"""Training losses of short runs, as they were when last approved. A refactor must reproduce them, and they must fall.

After a change that is meant to alter training: ``python -m tests.test_golden_losses`` rewrites the file (with
``$GRAPHBENCH_DATA`` set to the real data); say why in the commit.
"""

from __future__ import annotations

import ast
import json
import tempfile
from itertools import islice
from pathlib import Path

import pytest
import torch

from graphbench.config import load_config
from graphbench.data.files.molecules import molecules
from graphbench.data.files.roots import Roots
from graphbench.experiment import run
from tests.paths import ROOT

RECORDED = Path(__file__).with_suffix(".json")
SMALL = "dataset.SBM.train_graphs 32 dataset.SBM.val_graphs 8 dataset.SBM.test_graphs 8"
WARM = "optim.num_warmup_epochs 1 optim.base_lr 0.001"
RUNS = {
    "nodes/sgformer-cora-4layers": "optim.max_epoch 8",
    "quickstart": f"optim.max_epoch 3 {SMALL}",
    "gnnbench/gps-zinc": f"optim.max_epoch 3 gt.layers 1 train.batch_size 500 {WARM}",
    "lrgb/gps-peptides-func": f"optim.max_epoch 4 gt.layers 2 train.batch_size 32 {WARM} dataset.split_mode random",
}
ON_REAL_DATA = ("nodes/sgformer-cora-4layers", "gnnbench/gps-zinc", "lrgb/gps-peptides-func")


def first_peptides(path: Path, number: int = 300) -> list[str]:
    """Saves the first real Peptides as custom graphs (reading all 15,535 takes minutes); returns the overrides."""
    import pandas

    name = "peptides-functional/raw/peptide_multi_class_dataset.csv.gz"
    root = Roots.from_environment(path.parent).find(name)
    assert root is not None, f"{name} is in none of the folders of $GRAPHBENCH_DATA"
    rows = pandas.read_csv(root / name, nrows=number)
    read = molecules(rows["smiles"].tolist(), "peptides-functional")
    nodes, edges = (torch.as_tensor(read[key]).tolist() for key in ("nodes", "edges"))
    index, x, edge_attr = (torch.as_tensor(read[key]).long() for key in ("edge_index", "x", "edge_attr"))
    parts = zip(x.split(nodes), index.split(edges, dim=1), edge_attr.split(edges), rows["labels"], strict=True)
    graphs = [
        {"x": a, "edge_index": b, "edge_attr": c, "y": torch.tensor(ast.literal_eval(y)).float()}
        for a, b, c, y in islice(parts, number)
    ]
    torch.save(graphs, path)
    return ["dataset.format", "custom", "dataset.custom.path", str(path), "dataset.custom.metric", "ap"]


def losses(name: str, out: Path) -> dict[str, list[float]]:
    """Training and validation loss of every epoch."""
    overrides = [*RUNS[name].split(), "out_dir", str(out), "dataset.dir", str(out / "data"), "accelerator", "cpu"]
    if "peptides" in name:
        out.mkdir(parents=True, exist_ok=True)
        overrides += first_peptides(out / "peptides.pt")
    result = run(load_config(ROOT / "configs" / f"{name}.yaml", overrides))
    assert result is not None
    folder = Path(result["run_dir"])
    return {
        split: [json.loads(line)["loss"] for line in (folder / split / "stats.json").read_text().splitlines()]
        for split in ("train", "val")
    }


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if "gps-" in n else n for n in RUNS])
def test_losses_are_the_recorded_ones(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if name in ON_REAL_DATA:
        monkeypatch = request.getfixturevalue("monkeypatch")
        monkeypatch.setenv("GRAPHBENCH_DATA", str(request.getfixturevalue("data_root")))
    if "peptides" in name:
        pytest.importorskip("rdkit")
    recorded = json.loads(RECORDED.read_text())[name]
    for split, values in losses(name, tmp_path).items():
        # Other processors round differently, and rounding grows from step to step: 0.6 % after four epochs of Peptides
        # between an AMD EPYC and an Intel Xeon.
        assert values == pytest.approx(recorded[split], rel=2e-2, abs=1e-5), split


@pytest.mark.parametrize("name", RUNS)
def test_recorded_losses_fall(name: str) -> None:
    train = json.loads(RECORDED.read_text())[name]["train"]
    assert train == sorted(train, reverse=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        measured = {name: losses(name, Path(folder) / name) for name in RUNS}
    RECORDED.write_text(json.dumps(measured, indent=1) + "\n")
