"""What tests of kernels share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

if os.environ.get("TRITON_INTERPRET") == "1":
    from tests.ops.patched_once import language_patched_once
    from tests.ops.tensor_cores import products_in_tf32

    __all__ = ["language_patched_once", "products_in_tf32"]  # fixtures


@pytest.fixture
def fresh_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of compiled kernels of its own."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


@pytest.fixture
def tf32_allowed() -> Iterator[None]:
    """Torch's products of fp32 may be of tf32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)
