from __future__ import annotations

import logging
import multiprocessing
import os
import time
from pathlib import Path

import pytest
import safetensors
import torch
from torch import Tensor

from graphbench.data.files import checksums, tensor_cache
from graphbench.data.files.tensor_cache import cached_tensors
from graphbench.data.store_tensors import digest
from graphbench.errors import RunFailed

CONTENT = {"a": torch.tensor([1.0, float("nan")]), "b": torch.arange(3), "empty": torch.empty(0, 2)}


class _Counted:
    calls = 0

    def __call__(self) -> dict[str, Tensor]:
        self.calls += 1
        return CONTENT


def _same(found: dict[str, Tensor]) -> bool:
    return all(torch.equal(found[name].nan_to_num(), CONTENT[name].nan_to_num()) for name in CONTENT | found)


def test_others_may_read_what_one_user_wrote(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        cached_tensors(tmp_path / "cache", "x", {"k": 1}, _Counted())
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o044 for path in tmp_path.rglob("x*.safetensors")} == {0o044}


def test_the_second_request_computes_nothing(tmp_path: Path) -> None:
    compute = _Counted()
    for _ in range(3):
        assert _same(cached_tensors(tmp_path / "cache", "x", {"k": 1}, compute))
    assert compute.calls == 1
    cached_tensors(tmp_path / "cache", "x", {"k": 2}, compute)
    assert compute.calls == 2


def _damages() -> dict[str, object]:
    def flip(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[-3] ^= 1
        path.write_bytes(bytes(content))

    def foreign_key(path: Path) -> None:
        path.write_bytes(path.read_bytes().replace(b'{\\"k\\": 1}', b'{\\"k\\": 9}'))

    return {
        "one bit": flip,
        "cut off": lambda path: path.write_bytes(path.read_bytes()[:-5]),
        "empty": lambda path: path.write_bytes(b""),
        "something else": lambda path: path.write_bytes(b"not a tensor file at all"),
        "another key": foreign_key,
    }


@pytest.mark.parametrize("small", [0, checksums.SMALL], ids=["large file", "small file"])
@pytest.mark.parametrize("damage", _damages())
def test_damage_is_noticed_and_repaired(
    tmp_path: Path, damage: str, small: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checksums, "SMALL", small)
    compute = _Counted()
    cached_tensors(tmp_path, "x", {"k": 1}, compute)
    [file] = tmp_path.glob("*.safetensors")
    before = file.read_bytes()
    _damages()[damage](file)  # type: ignore[operator]
    assert file.read_bytes() != before
    with caplog.at_level(logging.WARNING):
        assert _same(cached_tensors(tmp_path, "x", {"k": 1}, compute))
    assert compute.calls == 2
    assert "is damaged" in caplog.text
    assert "computed again" in caplog.text
    if damage == "another key":
        assert "it holds something else" in caplog.text
    cached_tensors(tmp_path, "x", {"k": 1}, compute)
    assert compute.calls == 2


def test_a_failure_leaves_no_file(tmp_path: Path) -> None:
    def fail() -> dict[str, Tensor]:
        raise RuntimeError("no memory")

    with pytest.raises(RuntimeError, match="no memory"):
        cached_tensors(tmp_path, "x", {"k": 1}, fail)
    assert not [path for path in tmp_path.iterdir() if path.suffix != ".lock"]


def test_a_full_disk_is_told_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise safetensors.SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(tensor_cache, "save_file", full)
    with pytest.raises(RunFailed, match=r"x-\w+\.safetensors cannot be written \(I/O error: No space left"):
        cached_tensors(tmp_path, "x", {"k": 1}, _Counted())
    assert not [path for path in tmp_path.iterdir() if path.suffix != ".lock"]


def test_tensors_that_share_memory_are_stored(tmp_path: Path) -> None:
    base = torch.arange(4)
    for _ in range(2):
        found = cached_tensors(tmp_path, "x", {}, lambda: {"all": base, "part": base[1:3], "turned": base.view(2, 2).T})
        assert found["part"].tolist() == [1, 2]
        assert found["turned"].tolist() == [[0, 2], [1, 3]]


def test_a_large_file_is_verified_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksums, "SMALL", 0)
    calls = []

    def counted(tensors: dict[str, Tensor]) -> str:
        calls.append(1)
        return digest(tensors)

    monkeypatch.setattr(tensor_cache, "digest", counted)
    for expected in (2, 2, 2):  # once for the header, once reading back what was written, never again
        assert _same(cached_tensors(tmp_path, "x", {"k": 1}, _Counted()))
        assert len(calls) == expected
    [file] = tmp_path.glob("*.safetensors")
    os.utime(file)
    assert _same(cached_tensors(tmp_path, "x", {"k": 1}, _Counted()))
    assert len(calls) == 3


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="Linux only")
def test_tensors_are_mapped_and_the_file_is_never_written_to(tmp_path: Path) -> None:
    content = {"x": torch.arange(100_000), "y": torch.arange(5, dtype=torch.uint8)}
    for compute in (lambda: content, lambda: pytest.fail("computed twice")):
        found = cached_tensors(tmp_path, "x", {}, compute)
        [file] = tmp_path.glob("*.safetensors")
        address = found["x"].data_ptr()
        mapped = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith(str(file))]
        spans = [[int(end, 16) for end in line[0].split("-")] for line in mapped]
        assert any(low <= address < high for low, high in spans)
        before = file.read_bytes()
        found["x"][7] = -1
        assert file.read_bytes() == before
        assert cached_tensors(tmp_path, "x", {}, compute)["x"][7] == 7


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="Linux only")
def test_opening_a_large_file_reads_what_is_used_only(tmp_path: Path) -> None:
    size = 2 * checksums.SMALL

    def resident() -> int:
        lines = Path("/proc/self/smaps").read_text().splitlines()
        starts = [i for i, line in enumerate(lines) if line.endswith(".safetensors") and str(tmp_path) in line]
        return sum(int(next(x for x in lines[i:] if x.startswith("Rss:")).split()[1]) * 1024 for i in starts)

    cached_tensors(tmp_path, "x", {}, lambda: {"x": torch.ones(size, dtype=torch.uint8)})
    assert resident() == 0  # what was verified has left the memory of this process
    found = cached_tensors(tmp_path, "x", {}, lambda: pytest.fail("computed twice"))
    assert resident() < size / 50
    assert int(found["x"].sum()) == size
    assert resident() >= size


def test_a_disk_that_loses_what_was_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_cache, "_write", lambda *_: None)
    with pytest.raises(OSError, match="cannot be read back right after it was written"):
        cached_tensors(tmp_path, "x", {}, _Counted())


def _slow(folder: Path, log: Path) -> None:
    def compute() -> dict[str, Tensor]:
        with log.open("a") as file:
            file.write("computed\n")
        time.sleep(1.0)
        return CONTENT

    assert _same(cached_tensors(folder, "x", {"k": 1}, compute))
    with log.open("a") as file:
        file.write("done\n")


@pytest.mark.slow
def test_two_processes_do_the_work_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    log = tmp_path / "log"
    processes = [context.Process(target=_slow, args=(tmp_path / "cache", log)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert log.read_text().split() == ["computed", "done", "done"]


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path: Path) -> None:
    path = tensor_cache.cache_path(tmp_path, "name", {})
    (tmp_path / f".{path.name}.12345678.tmp").mkdir()
    (tmp_path / f".{path.name}.12345678.tmp/.tmpAbCdEf").write_text("half, under a name of safetensors")
    (tmp_path / f".{path.name}.2-shards").write_text("of others")
    cached_tensors(tmp_path, "name", {}, _Counted())
    assert [each.name for each in tmp_path.glob(".*")] == [f".{path.name}.2-shards"]
