"""The kernels of graph_layer_norm against the reference, on a GPU where there is one and interpreted elsewhere."""

from __future__ import annotations

import pytest

from graphbench.ops.graph_layer_norm import gpu
from tests.ops.ragged_inputs import AWKWARD, DEVICE, assert_same, assert_within_budget
from tests.ops.test_graph_layer_norm import case


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles from 9 rows on."""
    monkeypatch.setattr(gpu, "ENTRIES", 256)


@pytest.mark.parametrize("name", ["mixed", "one", "empty_graphs", "no_graphs", "giant_and_tiny"])
def test_equals_reference(name: str) -> None:
    using, inputs = case(AWKWARD[name], 20, DEVICE)
    assert_same(using("gpu"), using("reference"), inputs)


def test_error_in_float32() -> None:
    using, inputs = case([70, 3, 12], 20, DEVICE)
    assert_within_budget(using("gpu"), using("reference"), inputs)


def test_large_graphs_take_the_torch_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "LARGEST", 16)
    monkeypatch.setattr(gpu, "forward", None)
    using, inputs = case([17, 3], 20, DEVICE)
    assert_same(using("gpu"), using("reference"), inputs)
