"""Buffers of a pass: what a batch leaves is given as views, the same ones as long as they are those of the batch."""

from __future__ import annotations

import pytest
import torch

from graphbench.train.tally import Place, StepOutput, Tally


def _write(tally: Tally, place: Place, value: float, rows: int, loss: bool = True, graphs: int = 0) -> None:
    statistics = {"size": torch.full((graphs,), value)} if graphs else {}
    output = StepOutput(
        torch.tensor(value) if loss else None, torch.full((rows, 2), value), torch.full((rows,), value), statistics
    )
    tally.write(place.tensor(), output)


def test_views_are_made_once_and_follow_the_rows_of_the_batch() -> None:
    tally = Tally(batches=2, rows=6, graphs=4)
    outputs = []
    for value, sizes in ((1.0, (3, 2)), (2.0, (3, 2)), (3.0, (2, 3))):
        tally.begin()
        of_pass = []
        for rows in sizes:
            place = tally.reserve(rows, 2)
            _write(tally, place, value, rows, graphs=2)
            of_pass.append(tally.read(place, rows, 2))
            assert of_pass[-1].kept.tolist() == [[value] * 2] * rows
            assert of_pass[-1].statistics["size"].tolist() == [value] * 2
            assert float(of_pass[-1].loss) == value
        outputs.append(of_pass)
    assert all(ours is theirs for ours, theirs in zip(*outputs[:2], strict=True))
    assert not any(ours is theirs for ours, theirs in zip(*outputs[1:], strict=True)), "other rows have other views"


def test_a_number_that_is_written_later_is_read_too() -> None:
    tally = Tally(batches=1, rows=2)
    place = tally.reserve(2)
    _write(tally, place, 1.0, 2, loss=False)
    assert tally.read(place, 2).loss is None
    _write(tally, place, 1.0, 2)
    assert float(tally.read(place, 2).loss) == 1.0


def test_no_pass_is_longer_than_announced() -> None:
    tally = Tally(batches=2, rows=3)
    tally.reserve(2)
    with pytest.raises(RuntimeError, match="announced to end"):
        tally.reserve(2)
