"""Where processed real data is kept while the tests run, so that no set is parsed twice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder of this session; workers share it (the cache is made for several processes)."""
    own = tmp_path_factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "real-data-cache"
