"""Data sets in miniature: the format of the real files, a handful of graphs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphbench.data.card import DatasetCard
from graphbench.data.files.roots import Roots
from tests.real_data import shared_cache


@pytest.fixture
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cards check columns and classes, but not how many graphs there are."""
    check = DatasetCard.check
    monkeypatch.setattr(
        DatasetCard, "check", lambda card, store, where="": check(card.replace(statistics={}), store, where)
    )


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    """An empty place of one's own."""
    return Roots(tmp_path / "own", (), tmp_path / "cache")


@pytest.fixture
def shared_roots(tmp_path: Path, data_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Roots:
    """The same, with the real data to read from, each set of which is parsed once."""
    return Roots(tmp_path / "own", (data_root,), shared_cache(tmp_path_factory))


@pytest.fixture
def no_reading(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``no_reading(module, "name")``: from now on that function must not be called."""

    def forbid(module: Any, name: str) -> None:
        def called(*_: Any, **__: Any) -> None:
            raise AssertionError(f"{name} was called")

        monkeypatch.setattr(module, name, called)

    return forbid
