from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from graphbench.data.files import checksums
from graphbench.data.files.checksums import remembered_checksum


class _Counted:
    def __init__(self, path: Path) -> None:
        self.path, self.calls = path, 0

    def __call__(self) -> str:
        self.calls += 1
        return str(sum(self.path.read_bytes()))


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that counts as large; its ends are 64 bytes."""
    monkeypatch.setattr(checksums, "SMALL", 100)
    monkeypatch.setattr(checksums, "_ENDS", 64)
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 4)
    return path


def _overwrite(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"\xff")


def test_a_large_file_is_read_once(large: Path, tmp_path: Path) -> None:
    compute = _Counted(large)
    found = {remembered_checksum(large, tmp_path / "notes" / "note", compute) for _ in range(3)}
    assert found == {str(sum(range(256)) * 4)}
    assert compute.calls == 1


def test_a_small_file_is_read_every_time(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    compute = _Counted(path)
    for _ in range(2):
        remembered_checksum(path, tmp_path / "note", compute)
    assert compute.calls == 2
    assert not (tmp_path / "note").exists()


def _same_time(path: Path) -> None:
    before = path.stat()
    _overwrite(path, 500)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _copied(path: Path) -> None:
    shutil.copy2(path, path.with_name("copy"))
    os.replace(path.with_name("copy"), path)


@pytest.mark.parametrize(
    "change",
    [
        lambda path: _overwrite(path, 500),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        _same_time,
        _copied,
    ],
    ids=["written to", "cut off", "written to, time put back", "copied"],
)
def test_any_change_makes_it_be_read_again(large: Path, tmp_path: Path, change: Callable[[Path], None]) -> None:
    compute = _Counted(large)
    remembered_checksum(large, tmp_path / "note", compute)
    change(large)
    assert remembered_checksum(large, tmp_path / "note", compute) == str(sum(large.read_bytes()))
    assert compute.calls == 2


@pytest.mark.parametrize("at", [3, 1020])
def test_the_ends_are_always_compared(large: Path, tmp_path: Path, at: int) -> None:
    note, compute = tmp_path / "note", _Counted(large)
    remembered_checksum(large, note, compute)
    _overwrite(large, at)
    known = json.loads(note.read_text())
    facts = large.stat()  # as if the directory entry had not noticed
    known["file"]["changed"] = [facts.st_mtime_ns, facts.st_ctime_ns]
    note.write_text(json.dumps(known))
    remembered_checksum(large, note, compute)
    assert compute.calls == 2


@pytest.mark.parametrize("content", ["", "{}", "[]", "nothing", '{"file": 1, "checksum": 2}'])
def test_a_damaged_note_is_written_again(large: Path, tmp_path: Path, content: str) -> None:
    note, compute = tmp_path / "note", _Counted(large)
    note.write_text(content)
    for _ in range(2):
        assert remembered_checksum(large, note, compute) == str(sum(range(256)) * 4)
    assert compute.calls == 1


def test_a_note_that_cannot_be_written_costs_time_only(large: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("a file where the folder should be")
    compute = _Counted(large)
    for _ in range(2):
        remembered_checksum(large, tmp_path / "notes" / "note", compute)
    assert compute.calls == 2
