from __future__ import annotations

import errno
import logging
import resource
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import filelock
import pytest

from graphbench.data.files.download import no_downloads
from graphbench.data.files.roots import Roots
from graphbench.errors import RunFailed, UserError
from graphbench.exit_codes import told_to_user


def _put(root: Path, file: str) -> None:
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_text(root.name)


def test_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GRAPHBENCH_DATA", f"{tmp_path}/a:{tmp_path}/b")
    monkeypatch.delenv("GRAPHBENCH_CACHE", raising=False)
    roots = Roots.from_environment(tmp_path / "own")
    assert roots == Roots(tmp_path / "own", (tmp_path / "a", tmp_path / "b"), tmp_path / "own" / ".cache")
    monkeypatch.setenv("GRAPHBENCH_CACHE", f"{tmp_path}/cache")
    monkeypatch.setenv("GRAPHBENCH_DATA", "")
    assert Roots.from_environment("own") == Roots(Path("own"), (), tmp_path / "cache")


def test_own_folder_comes_first_then_the_shared_ones_in_order(tmp_path: Path) -> None:
    own, first, second = tmp_path / "own", tmp_path / "first", tmp_path / "second"
    roots = Roots(own, (first, second), tmp_path / "cache")
    assert roots.find("x/a") is None
    for root in (second, first, own):
        _put(root, "x/a")
        assert roots.find("x/a") == root
    _put(second, "x/b")  # a root counts only if it has all files
    assert roots.find("x/a", "x/b") == second


def test_what_is_missing_is_downloaded_into_the_own_folder(tmp_path: Path) -> None:
    source = tmp_path / "source.txt"
    source.write_text("content")
    roots = Roots(tmp_path / "own", (tmp_path / "shared",), tmp_path / "cache")
    _put(roots.directory, "x/a")
    assert roots.require("X", ["x/a", "x/b"], {"x/b": source.as_uri()}) == roots.directory
    assert (roots.directory / "x/b").read_text() == "content"
    assert (roots.directory / "x/a").read_text() == "own"
    assert not (tmp_path / "shared").exists()


def test_processes_that_need_a_file_at_once_download_it_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots, calls, go_on = Roots(tmp_path / "own", (), tmp_path / "cache"), [], threading.Event()

    def fetch(folder: Path) -> None:
        calls.append(folder)
        go_on.wait(10)
        _put(folder, "x/a")

    caplog.set_level(logging.INFO)
    with ThreadPoolExecutor(3) as pool:
        found = [pool.submit(roots.require, "X", ["x/a"], fetch=fetch) for _ in range(3)]
        while caplog.text.count("waiting for another process that downloads X") < 2 and len(calls) < 2:
            go_on.wait(0.01)
        with no_downloads(), pytest.raises(UserError, match="downloads are switched off"):
            roots.require("X", ["x/a"], fetch=fetch)  # at once
        go_on.set()
        assert [each.result() for each in found] == [roots.directory] * 3
    assert calls == [roots.directory]

    def no_locks(*_: object, **__: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(filelock.FileLock, "acquire", no_locks)
    assert roots.require("Y", ["y/a"], fetch=lambda folder: _put(folder, "y/a")) == roots.directory


def test_a_full_disk_is_not_put_down_to_the_download(tmp_path: Path) -> None:
    source = tmp_path / "source.txt"
    source.write_text("content" * 1000)
    roots = Roots(tmp_path / "own", (), tmp_path / "cache")
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # fails as a disk without room does
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            roots.require("X", ["x/a"], {"x/a": source.as_uri()})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))
    told = told_to_user(caught.value)
    assert isinstance(told, RunFailed)
    assert str(told).startswith(f"{tmp_path}/own/x/a: File too large.")
    assert roots.require("X", ["x/a"], {"x/a": source.as_uri()}) == roots.directory, "the next start goes on"


def test_the_message_says_what_is_missing_and_where_to_put_it(tmp_path: Path) -> None:
    roots = Roots(tmp_path / "own", (tmp_path / "shared",), tmp_path / "cache")
    _put(roots.directory, "x/a")
    url = (tmp_path / "nowhere").as_uri()
    with pytest.raises(UserError) as caught:
        roots.require("X", ["x/a", "x/b"], {"x/a": url, "x/b": url})
    message = str(caught.value)
    assert f"the raw files of X are in none of {tmp_path}/own, {tmp_path}/shared" in message
    assert f"Put these files below {tmp_path}/own (dataset.dir)" in message
    assert f"\n  x/b   from {url}" in message
    assert "x/a" not in message
    with pytest.raises(UserError, match="no download is known for x/b"):
        roots.require("X", ["x/b"])
