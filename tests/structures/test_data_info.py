"""Facts about a data set."""

from __future__ import annotations

import dataclasses

import pytest

from graphbench.structures import DataInfo

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
