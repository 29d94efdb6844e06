"""Kernels of batch_rows in Triton's interpreter."""

from __future__ import annotations

from tests.ops.batch_rows_cases import assert_equal_rows


def test_kernels() -> None:
    assert_equal_rows("gpu")
