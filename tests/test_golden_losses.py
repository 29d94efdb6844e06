"""Training losses of two short runs, as they were when last approved. A refactor must reproduce them.

After a change that is meant to alter training: ``python -m tests.test_golden_losses`` rewrites the file; say why in
the commit.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from graphbench.config import load_config
from graphbench.experiment import run

ROOT = Path(__file__).resolve().parent.parent
RECORDED = Path(__file__).with_suffix(".json")
SMALL = "dataset.SBM.train_graphs 32 dataset.SBM.val_graphs 8 dataset.SBM.test_graphs 8"
RUNS = {"nodes/sgformer-cora": "optim.max_epoch 8", "quickstart": f"optim.max_epoch 3 {SMALL}"}


def losses(name: str, out: Path) -> dict[str, list[float]]:
    """Training and validation loss of every epoch."""
    overrides = [*RUNS[name].split(), "out_dir", str(out), "dataset.dir", str(out / "data"), "accelerator", "cpu"]
    result = run(load_config(ROOT / "configs" / f"{name}.yaml", overrides))
    assert result is not None
    folder = Path(result["run_dir"])
    return {
        split: [json.loads(line)["loss"] for line in (folder / split / "stats.json").read_text().splitlines()]
        for split in ("train", "val")
    }


@pytest.mark.parametrize("name", RUNS)
def test_losses_are_the_recorded_ones(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if name.startswith("nodes/"):
        monkeypatch = request.getfixturevalue("monkeypatch")
        monkeypatch.setenv("GRAPHBENCH_DATA", str(request.getfixturevalue("data_root")))
    recorded = json.loads(RECORDED.read_text())[name]
    for split, values in losses(name, tmp_path).items():
        # Other processors round differently, and rounding grows from step to step.
        assert values == pytest.approx(recorded[split], rel=2e-3, abs=1e-5), split


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        measured = {name: losses(name, Path(folder) / name) for name in RUNS}
    RECORDED.write_text(json.dumps(measured, indent=1) + "\n")
