"""Every operator's Triton kernels against its reference: on a GPU where there is one, else in Triton's interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ops.ragged_inputs import kernel_tests
from tests.ops.triton_compiler import run_interpreted

CASES = kernel_tests()
PARTS = 3
"""Processes that share the files: each takes seconds to begin."""
WITH_MORE = [name for name in CASES if "exhaustive" in Path(__file__).with_name(name).read_text(encoding="utf-8")]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_kernels_against_the_reference(part: int) -> None:
    run_interpreted(*CASES[part::PARTS])


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("cases", WITH_MORE)
def test_kernels_against_the_reference_in_more_cases(cases: str) -> None:
    run_interpreted(cases, marked="exhaustive")
