"""A file is the old or the new one, whatever happens in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from graphbench.runs import atomic
from tests.paths import ROOT


def test_text_is_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "a.txt"
    atomic.write_text(path, "one ±")
    atomic.write_text(path, "two")
    assert path.read_text() == "two"
    assert os.listdir(path.parent) == ["a.txt"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_exception_leaves_the_old_content(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "a.txt"
    atomic.write_text(path, "old")

    def write_half() -> None:
        with atomic.replacing(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        write_half()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("moment", ["os.fsync", "pathlib.Path.replace"])
def test_killed_while_writing(tmp_path: Path, moment: str) -> None:
    path = tmp_path / "a.txt"
    atomic.write_text(path, "old")
    module, _, name = moment.partition(".")
    script = (
        f"import os, {module}, signal; from pathlib import Path; from graphbench.runs import atomic\n"
        f"{moment} = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"atomic.write_text(Path({str(path)!r}), 'new content')"
    )
    done = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == -signal.SIGKILL, name
    assert path.read_text() == "old"
    assert len(os.listdir(tmp_path)) == 2
    atomic.sweep(tmp_path)
    assert os.listdir(tmp_path) == ["a.txt"]


def test_the_file_is_flushed_before_and_the_folder_after_the_rename(tmp_path: Path, monkeypatch) -> None:
    events = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (events.append("flush"), fsync(handle)))
    monkeypatch.setattr(Path, "replace", lambda self, target: (events.append("rename"), replace(self, target)))
    atomic.write_text(tmp_path / "a.txt", "x")
    assert events == ["flush", "rename", "flush"]
