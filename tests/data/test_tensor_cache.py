from __future__ import annotations

import logging
import multiprocessing
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor

from graphbench.data.tensor_cache import cached_tensors

CONTENT = {"a": torch.tensor([1.0, float("nan")]), "b": torch.arange(3), "empty": torch.empty(0, 2)}


class _Counted:
    calls = 0

    def __call__(self) -> dict[str, Tensor]:
        self.calls += 1
        return CONTENT


def _same(found: dict[str, Tensor]) -> bool:
    return all(torch.equal(found[name].nan_to_num(), CONTENT[name].nan_to_num()) for name in CONTENT | found)


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


@pytest.mark.parametrize("damage", _damages())
def test_damage_is_noticed_and_repaired(tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
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
    cached_tensors(tmp_path, "x", {"k": 1}, compute)
    assert compute.calls == 2


def test_a_failure_leaves_no_file(tmp_path: Path) -> None:
    def fail() -> dict[str, Tensor]:
        raise RuntimeError("no memory")

    with pytest.raises(RuntimeError, match="no memory"):
        cached_tensors(tmp_path, "x", {"k": 1}, fail)
    assert not [each for each in tmp_path.iterdir() if each.suffix != ".lock"]


def test_tensors_that_share_memory_are_stored(tmp_path: Path) -> None:
    base = torch.arange(4)
    for _ in range(2):
        found = cached_tensors(tmp_path, "x", {}, lambda: {"all": base, "part": base[1:3], "turned": base.view(2, 2).T})
        assert found["part"].tolist() == [1, 2]
        assert found["turned"].tolist() == [[0, 2], [1, 3]]


def _slow(folder: Path, log: Path) -> None:
    def compute() -> dict[str, Tensor]:
        with log.open("a") as file:
            file.write("computed\n")
        time.sleep(1.0)
        return CONTENT

    assert _same(cached_tensors(folder, "x", {"k": 1}, compute))
    with log.open("a") as file:
        file.write("done\n")


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
