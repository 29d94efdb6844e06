"""Who waits is told; where nothing may be written, the variable that names the cache is."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from filelock import FileLock

from graphbench.data.files.cache_lock import cache_lock
from graphbench.errors import UserError


def test_the_second_waits_with_a_line_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, entered = tmp_path / "new" / "a.lock", Event()

    def second() -> None:
        with cache_lock(path, "LapPE"):
            entered.set()

    with caplog.at_level(logging.INFO, "graphbench"), ThreadPoolExecutor() as threads:
        with cache_lock(path, "LapPE"):
            waiting = threads.submit(second)
            while "waiting for another process that computes LapPE" not in caplog.text:
                assert not waiting.done()
            assert not entered.is_set()
        waiting.result(30)
    assert entered.is_set()


def test_a_cache_that_may_only_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(FileLock, "acquire", refused)
    with pytest.raises(UserError, match=r"LapPE cannot be kept in this cache \(Permission denied\).*GRAPHBENCH_CACHE"):
        with cache_lock(tmp_path / "a.lock", "LapPE"):
            pass
