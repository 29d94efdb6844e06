"""Which targets may be read travels with a batch."""

from __future__ import annotations

import torch

from graphbench.structures.known_targets import KNOWN, known_targets
from tests.contract import example_batch


def test_the_column_is_found_and_none_where_nobody_said() -> None:
    batch = example_batch((3, 2))
    assert known_targets(batch) is None
    mask = torch.tensor([True, False, True, False, False])
    assert known_targets(batch.replace(pe={KNOWN: mask})) is mask
