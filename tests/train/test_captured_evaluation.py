"""Captured evaluation on the second device: the predictions, losses and statistics of evaluation batch by batch."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch

from graphbench.data.splits import Splits
from graphbench.structures import GraphBatch
from tests.second_device import GPU, second_device
from tests.train.capture_case import Training, training
from tests.train.step_tape import Tapes
from tests.train.test_captured_step import Leaking

GRAPHS = Splits.of(range(4), range(4, 11), range(11, 16))
NODES = Splits.of(range(20), range(20, 50), range(50, 105))
CASES = {
    "graphs": ("lrgb/gatedgcn-peptides-func", False),
    "nodes of graphs": ("lrgb/gcn-pascal-tuned", False),
    "pairs of nodes, and their ranks": ("lrgb/gcn-pcqm-contact-tuned", False),
    "nodes of one graph": ("nodes/sgformer-cora", True),
}


def evaluated(case: str, tmp_path: Path, graphs: Tapes | None = None) -> Training:
    name, one_graph = CASES[case]
    return training(name, tmp_path, one_graph=one_graph, splits=NODES if one_graph else GRAPHS, graphs=graphs)


def assert_equal_evaluations(run: Training) -> None:
    expected, replayed = run.evaluate(captured=False), run.evaluate(captured=True)
    assert expected.keys() == replayed.keys() == {"val", "test"}
    for split, of_split in expected.items():
        ours, theirs = replayed[split].buffer, of_split.buffer
        assert ours.counts == theirs.counts
        for name in ("losses", "preds", "trues"):
            for one, other in zip(getattr(ours, name), getattr(theirs, name), strict=True):
                torch.testing.assert_close(one.cpu(), other.cpu(), rtol=1e-12, atol=1e-12)
        assert ours.statistics.keys() == theirs.statistics.keys()
        # On a GPU products of other shapes round differently. Ranks of what is nearly tied would show that, where
        # everything else shows one part in 10^12: metrics are those of the same predictions.
        ours.preds = [each.clone() for each in theirs.preds]
        values, expected_values = ours.compute(run.task), theirs.compute(run.task)
        assert values == pytest.approx(expected_values, rel=1e-6, nan_ok=True)


@pytest.mark.parametrize("case", CASES)
def test_replays_are_the_evaluation(case: str, tmp_path: Path) -> None:
    """Of the parameters as they are, not as they were when it was recorded."""
    with second_device():
        run = evaluated(case, tmp_path)
        assert_equal_evaluations(run)
        recorded = len(run.graphs.made) if isinstance(run.graphs, Tapes) else None
        with torch.no_grad():
            for parameter in run.model.parameters():
                parameter.mul_(1.5)
        assert_equal_evaluations(run)
        if isinstance(run.graphs, Tapes):
            assert 0 < len(run.graphs.made) == recorded


def test_steps_and_evaluations_take_turns(tmp_path: Path) -> None:
    """Graphs of both share memory; what one leaves in it the other does not read."""
    with second_device():
        run = evaluated("graphs", tmp_path)
        for epoch in range(2):
            run.model.train()
            run.captured.begin_epoch()
            for plan in run.loaders.train_plans(epoch):
                run.captured(plan)
            assert_equal_evaluations(run)


def test_statistics_of_layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of real graphs; those of padding are left out."""
    with second_device():
        run = training("gnnbench/gradformer-zinc", tmp_path, splits=GRAPHS)
        sizes = [float(run.loaders._store.sizes[graph]) for graph in GRAPHS.val.tolist()]

        def statistics(h: torch.Tensor, e: torch.Tensor | None, batch: GraphBatch) -> dict[str, torch.Tensor]:
            return {"size": batch.ragged.size_tensor.double()}

        layer = next(each for each in run.model.modules() if hasattr(each, "statistics"))
        monkeypatch.setattr(layer, "forward", lambda h, e, batch: h)
        monkeypatch.setattr(layer, "statistics", statistics)
        buffer = run.evaluate(captured=True)["val"].buffer
        assert torch.cat([each.cpu() for each in buffer.statistics["size"]]).tolist() == sizes


@pytest.mark.skipif(GPU, reason="the tape loses operations, not the GPU")
@pytest.mark.parametrize("name", ["addmm", "index_copy_"])
def test_work_outside_the_graph_is_noticed(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with second_device():
        run = evaluated("graphs", tmp_path, Leaking(name))
        before = run.parameters()
        with caplog.at_level(logging.INFO, logger="graphbench"):
            assert_equal_evaluations(run)
            assert_equal_evaluations(run)
        assert all(torch.equal(a, b) for a, b in zip(before, run.parameters(), strict=True))
    (told,) = [record.message for record in caplog.records if "without capturing" in record.message]
    assert told.startswith("evaluating batch by batch, without capturing: a replay is not the work itself")


def test_what_reads_sizes_on_the_host_is_evaluated_batch_by_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with second_device():
        run = evaluated("graphs", tmp_path)
        forward = run.model.forward
        monkeypatch.setattr(run.model, "forward", lambda batch: forward(batch) * len(batch.ragged.sizes))
        with caplog.at_level(logging.INFO, logger="graphbench"):
            assert_equal_evaluations(run)
    assert "evaluating batch by batch, without capturing: the sizes of the graphs of a padded batch" in caplog.text
