"""One large graph in pieces, from YAML to scores, on real Cora."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphbench.config import load_config
from graphbench.errors import UserError
from graphbench.experiment import describe, run

ROOT = Path(__file__).resolve().parents[2]
CORA, ACTOR = (ROOT / f"configs/nodes/{name}.yaml" for name in ("sgformer-cora", "gps-actor"))


@pytest.mark.parametrize(
    "overrides",
    [
        "train.sampler random_node train.train_parts 4 val.sampler blocks",
        "train.sampler random_node train.train_parts 4 val.sampler full_batch",
        "train.sampler neighbor train.neighbor_sizes [5,-1] train.batch_size 64 val.sampler random_node",
    ],
)
def test_a_graph_is_trained_in_pieces(overrides: str, tmp_path: Path, monkeypatch, data_root: Path) -> None:
    monkeypatch.setenv("GRAPHBENCH_DATA", str(data_root))
    own = ["out_dir", str(tmp_path / "out"), "dataset.dir", str(tmp_path / "data"), "optim.max_epoch", "6"]
    line = run(load_config(CORA, [*overrides.split(), *own, "accelerator", "cpu"]))
    assert line is not None
    assert line["val"]["accuracy"] > 0.4  # seven classes


def test_blocks_give_the_scores_of_the_whole_graph(tmp_path: Path, monkeypatch, data_root: Path) -> None:
    monkeypatch.setenv("GRAPHBENCH_DATA", str(data_root))
    scores = []
    for evaluation in ("blocks", "full_batch"):
        own = ["out_dir", str(tmp_path / evaluation), "dataset.dir", str(tmp_path / "data"), "optim.max_epoch", "3"]
        sampler = ["train.sampler", "random_node", "train.train_parts", "3", "val.sampler", evaluation]
        line = run(load_config(CORA, [*sampler, *own, "accelerator", "cpu"]))
        assert line is not None
        scores.append(line["test"])
    assert scores[0] == pytest.approx(scores[1], rel=1e-4)


@pytest.mark.parametrize(
    ("path", "overrides", "message"),
    [
        (CORA, "val.sampler blocks", "val.sampler blocks is for graphs that are cut in training as well"),
        (ACTOR, "val.sampler blocks train.sampler random_node", "GPSModel cannot be evaluated block by block"),
        (CORA, "train.sampler cluster", "Allowed: full_batch, random_node, neighbor"),
    ],
)
def test_samplers_that_do_not_fit_show_without_data(path: Path, overrides: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        describe(load_config(path, overrides.split()))
