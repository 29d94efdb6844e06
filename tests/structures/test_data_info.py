"""Facts about a data set."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from graphbench.structures import DataInfo
from graphbench.structures.data_info import Measured

FACTS = DataInfo("Tiny", "graph", "regression", 3, 0, 1, "mae", maximize=False)


def test_defaults() -> None:
    assert FACTS.vocabularies == {}
    assert FACTS.max_nodes is None
    assert FACTS.degree_histogram is None


@pytest.mark.parametrize(
    ("change", "message"), [({"task": "graphs"}, "'graphs'"), ({"task_type": "binary"}, "'binary'")]
)
def test_unknown_names_are_refused(change: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(FACTS, **change)


def test_facts_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        FACTS.node_in = 4  # type: ignore[misc]


def test_measured_numbers_are_measured_once_and_only_when_read() -> None:
    calls = []

    def measure() -> list[int]:
        calls.append(1)
        return [3, 2, 1]

    facts = dataclasses.replace(FACTS, degree_histogram=Measured(measure))
    assert "Tiny" in repr(facts)
    assert not calls
    histogram = facts.degree_histogram
    assert (len(histogram), histogram[1], list(histogram)) == (3, 2, [3, 2, 1])
    assert histogram == (3, 2, 1)
    assert histogram != (3, 2)
    assert repr(histogram) == "(3, 2, 1)"
    assert hash(histogram) == hash((3, 2, 1))
    assert len(calls) == 1


def test_numbers_are_measured_while_a_model_is_outlined() -> None:
    with torch.device("meta"):
        assert list(Measured(lambda: torch.arange(3).tolist())) == [0, 1, 2]
