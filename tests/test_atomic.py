"""A file is the old or the new one, whatever happens in between."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from graphbench import atomic
from graphbench.exit_codes import told_to_user
from tests.paths import ROOT


def test_text_is_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "a.txt"
    atomic.write_text(path, "one ±")
    atomic.write_text(path, "two")
    assert path.read_text() == "two"
    assert os.listdir(path.parent) == ["a.txt"]


def test_links_and_pipes_that_a_user_names_stay_what_they_are(tmp_path: Path) -> None:
    def write(path: Path, content: bytes) -> None:
        with atomic.output(path) as file:
            file.write(content)

    link, target, pipe = tmp_path / "link", tmp_path / "target", tmp_path / "pipe"
    target.write_text("old")
    link.symlink_to(target)
    write(link, b"new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as threads:
        read = threads.submit(pipe.read_text)
        write(pipe, b"text")
        assert read.result(30) == "text"
    assert pipe.is_fifo()


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


def test_a_full_disk_is_told_with_the_file(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")

    def of_a_library() -> None:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError:
            raise RuntimeError("unexpected pos 64 vs 0") from None  # as torch.save ends

    def write() -> None:
        with atomic.replacing(tmp_path / "a.txt"):
            raise full

    def save() -> None:
        with atomic.replacing(tmp_path / "b.ckpt"):
            of_a_library()

    for attempt, name in ((write, "a.txt"), (save, "b.ckpt")):
        with pytest.raises((OSError, RuntimeError)) as caught:
            attempt()
        told = str(told_to_user(caught.value))
        assert told.startswith(f"{tmp_path / name}: No space left on device. ")


def test_a_folder_in_the_way_is_told_by_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "page.html").mkdir()
    with pytest.raises(OSError, match=r"/page\.html'$"):
        atomic.write_text(tmp_path / "page.html", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_what_cannot_be_written_is_told_by_its_own_name(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 250)  # its temporary name is too long
    with pytest.raises(OSError, match="File name too long") as caught:
        atomic.write_text(long, "text")
    assert caught.value.filename == str(long)

    def fill() -> None:
        with atomic.making_folder(tmp_path / "model") as made:
            (made / "none/a.txt").write_text("a")

    with pytest.raises(FileNotFoundError) as caught:
        fill()
    assert caught.value.filename == str(tmp_path / "model/none/a.txt")


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "model"

    def fill(error: BaseException | None) -> None:
        with atomic.making_folder(folder) as made:
            (made / "a.txt").write_text("a")
            assert "a.txt" not in (os.listdir(folder) if folder.exists() else [])
            if error is not None:
                raise error

    with pytest.raises(KeyboardInterrupt):
        fill(KeyboardInterrupt())
    assert os.listdir(folder.parent) == []
    fill(None)
    assert os.listdir(folder.parent) == ["model"]
    assert os.listdir(folder) == ["a.txt"]
    (folder / "a.txt").rename(folder / "mine")
    with pytest.raises(OSError, match="not empty"):
        fill(None)
    assert os.listdir(folder) == ["mine"]
    assert os.listdir(folder.parent) == ["model"]


@pytest.mark.parametrize("moment", ["os.fsync", "pathlib.Path.replace"])
def test_killed_while_writing(tmp_path: Path, moment: str) -> None:
    path = tmp_path / "a.txt"
    atomic.write_text(path, "old")
    module, _, name = moment.partition(".")
    script = (
        f"import os, {module}, signal; from pathlib import Path; from graphbench import atomic\n"
        f"{moment} = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"atomic.write_text(Path({str(path)!r}), 'new content')"
    )
    done = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == -signal.SIGKILL, name
    assert path.read_text() == "old"
    assert len(os.listdir(tmp_path)) == 2
    atomic.sweep(tmp_path)
    assert os.listdir(tmp_path) == ["a.txt"]


def test_what_killed_processes_left_goes_away_after_a_day(tmp_path: Path) -> None:
    names = [".a[1].txt.7.tmp", ".a[1].txt.8.tmp", ".b.txt.7.tmp", ".a[1].txt.9.tmp"]
    for name in names[:3]:
        (tmp_path / name).write_text("half")
    (tmp_path / names[3]).mkdir()  # of a folder
    for name in (names[0], *names[2:]):
        os.utime(tmp_path / name, (0, 0))
    atomic.write_text(tmp_path / "a[1].txt", "whole")
    assert set(os.listdir(tmp_path)) == {"a[1].txt", ".a[1].txt.8.tmp", ".b.txt.7.tmp"}


def test_writers_of_one_number_and_clocks_that_are_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two containers have process 7 each, and one of them believes that a week has passed."""
    monkeypatch.setattr("os.getpid", lambda: 7)
    with atomic.replacing(tmp_path / "a.txt") as first:
        first.write(b"first")
        monkeypatch.setattr("time.time", lambda: os.stat(tmp_path).st_mtime + 7 * atomic.ABANDONED)
        with atomic.replacing(tmp_path / "a.txt") as second:
            second.write(b"2")
        first.write(b" to the end")
    assert (tmp_path / "a.txt").read_text() == "first to the end"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_the_file_is_flushed_before_and_the_folder_after_the_rename(tmp_path: Path, monkeypatch) -> None:
    events = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (events.append("flush"), fsync(handle)))
    monkeypatch.setattr(Path, "replace", lambda self, target: (events.append("rename"), replace(self, target)))
    atomic.write_text(tmp_path / "a.txt", "x")
    assert events == ["flush", "rename", "flush"]
