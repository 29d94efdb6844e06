"""GECO, Transformer and Performer in one frame learn real graphs: the sweep ``geco-beside`` on its first batches."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

from graphbench.config import Config, load_config
from graphbench.factory.parts import build_parts
from graphbench.sweeps import read_sweep
from tests.paths import ROOT

SWEEP = ROOT / "configs/sweeps/geco-beside.yaml"
GRAPHS, BATCHES, PASSES = 32, 4, 8
# Without encodings, which would be computed for the whole data set.
FEATURES = {"geco-zinc": "TypeDictNode", "geco-peptides-func": "Atom", "geco-molhiv": "Atom"}


def _losses(config: Config) -> tuple[list[float], float]:
    """Mean training loss of every pass over a few batches, and the largest loss of 30 other ones after them.

    Where GECO stood behind batch norm, one graph in fifty left all bounds in evaluation.
    """
    parts = build_parts(config)
    loaders, model, task, optimizer = parts.loaders, parts.model, parts.task, parts.optimizer
    batches = [batch for (batch, _), _ in zip(loaders.train(0), range(BATCHES))]
    assert all(batch.num_graphs == GRAPHS for batch in batches)
    means = []
    for _ in range(PASSES):
        total = 0.0
        for batch in batches:
            pred = model(batch)
            loss = task.loss(pred, batch.y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            total += loss.item()
        means.append(total / BATCHES)
    model.eval()
    with torch.no_grad():
        unseen = [batch for (batch, _), _ in zip(loaders.train(1), range(30))]
        return means, max(task.loss(model(batch), batch.y).item() for batch in unseen)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "geco-zinc",
        # Minutes to read the molecules, where they have not been read before.
        pytest.param("geco-peptides-func", marks=pytest.mark.exhaustive),
        pytest.param("geco-molhiv", marks=pytest.mark.exhaustive),
    ],
)
def test_all_three_learn_real_graphs(name: str, data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "zinc" not in name:
        pytest.importorskip("rdkit")
    monkeypatch.setenv("GRAPHBENCH_DATA", str(data_root))
    entries = [each for each in read_sweep(SWEEP).entries if each.file.stem == name]
    assert [each.label for each in entries] == ["GECO", "Transformer", "Performer"]
    settings = {
        "dataset.node_encoder_name": FEATURES[name],
        "gt.layers": "2",
        "train.batch_size": str(GRAPHS),
        "optim.base_lr": "0.001",
        "accelerator": "cpu",
    }
    for entry in entries:
        overrides = [*entry.overrides, *(part for pair in settings.items() for part in pair)]
        means, unseen = _losses(load_config(entry.file, overrides))
        print(f"{name}, {entry.label}: " + " ".join(f"{mean:.4f}" for mean in means) + f"; others at most {unseen:.4f}")
        assert means[-1] < 0.9 * means[0], entry.label
        assert unseen < 2 * means[0], entry.label
        assert sum(later < earlier for earlier, later in itertools.pairwise(means)) >= PASSES - 3, entry.label
