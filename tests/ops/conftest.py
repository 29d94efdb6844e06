"""What tests of kernels share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def fresh_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of compiled kernels of its own."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
