"""Facts about data in records: those of every version are read, and written as they were."""

from __future__ import annotations

from typing import Any

import pytest

from graphbench.runs.data_facts import DataFacts

SPLIT = {"split_mode": "standard", "split_index": 3, "sizes": {"train": 6, "val": 2, "test": 2}}
WITH_COUNT = {"split_mode": "random", "split_index": 0, "split_count": 1, "split_seed": None, "sizes": {"train": 6}}
STARTED = {"run": "results/first/0", "judged": ["on the very examples"]}


@pytest.mark.parametrize(
    "plain",
    [
        {},
        {"name": "Cora", "fingerprint": "f00"},
        {"name": "Cora", "fingerprint": "f00", **SPLIT},  # before splits were counted
        {"name": "Cora", "fingerprint": "f00", **WITH_COUNT},
        {"name": "Cora", "fingerprint": "f00", **WITH_COUNT, "fold_seed": 1, "pretrained": STARTED},
    ],
)
def test_what_was_written_is_written_again(plain: dict[str, Any]) -> None:
    again = DataFacts.of(plain).plain()
    assert again == plain
    assert list(again) == list(plain), "records are compared byte by byte"


def test_facts_of_later_versions_are_ignored() -> None:
    assert DataFacts.of({"name": "Cora", "licence": "none"}) == DataFacts("Cora")


@pytest.mark.parametrize(
    ("facts", "name", "text"),
    [
        (DataFacts(split_mode="standard", split_index=3), "split 3", "standard, index 3"),
        (DataFacts(split_mode="random", split_seed=7), "split of seed 7", "random, index 0, seed 7"),
        (DataFacts(split_mode="random", split_index=1, split_seed=7), "split 1 of seed 7", "random, index 1, seed 7"),
        (DataFacts(split_mode="cv-kfold-5", fold_seed=2), "split 0", "cv-kfold-5, index 0, seed 2"),
    ],
)
def test_names_of_a_split(facts: DataFacts, name: str, text: str) -> None:
    assert (facts.input_name, facts.split_text) == (name, text)
