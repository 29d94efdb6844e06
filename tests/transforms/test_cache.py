from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from graphbench import registry
from graphbench.data.generators import BlockModel, sbm_cluster
from graphbench.data.store import GraphStore
from graphbench.registry import register
from graphbench.transforms._cache import apply, describe
from graphbench.transforms.laplacian_pe import LaplacianPE
from graphbench.transforms.random_walk_se import RandomWalkSE


def _store(seed: int = 0) -> GraphStore:
    return sbm_cluster((6,), seed, base=BlockModel(2, 3, 5, 0.7, 0.3))


def _computed(store: GraphStore, cache: Path, **transforms: object) -> list[str]:
    """Names of what had to be computed."""
    told: list[str] = []
    apply(store, transforms, cache, told.append)  # type: ignore[arg-type]
    return [line.split()[1] for line in told]


def test_outputs_are_named_after_the_encoder(tmp_path: Path) -> None:
    store = apply(_store(), {"LapPE": LaplacianPE(4), "RWSE": RandomWalkSE([1, 2])}, tmp_path)
    assert {name: tuple(value.shape[1:]) for name, value in store.pe.items()} == {
        "LapPE.eigvecs": (4,),
        "LapPE.eigvals": (4, 1),
        "RWSE.landing": (2,),
    }
    assert store.gather([1]).pe["RWSE.landing"].shape == (int(store.sizes[1]), 2)
    assert store.fingerprint == _store().fingerprint


def test_from_disk_it_is_the_same(tmp_path: Path) -> None:
    first, second = (apply(_store(), {"LapPE": LaplacianPE(9)}, tmp_path).pe for _ in range(2))
    for name, value in first.items():
        torch.testing.assert_close(second[name], value, rtol=0, atol=0, equal_nan=True)


def test_only_what_changed_is_computed(tmp_path: Path) -> None:
    store = _store()
    assert _computed(store, tmp_path, LapPE=LaplacianPE(4), RWSE=RandomWalkSE([1, 2])) == ["LapPE", "RWSE"]
    assert _computed(store, tmp_path, LapPE=LaplacianPE(4), RWSE=RandomWalkSE([1, 2])) == []
    assert _computed(store, tmp_path, LapPE=LaplacianPE(5), RWSE=RandomWalkSE([1, 2])) == ["LapPE"]
    assert _computed(store, tmp_path, LapPE=LaplacianPE(5, "none"), RWSE=RandomWalkSE([1, 2, 3])) == ["LapPE", "RWSE"]
    assert _computed(_store(1), tmp_path, RWSE=RandomWalkSE([1, 2])) == ["RWSE"]
    # another encoder that reads the same transform, and a store that has encodings already, find what is there
    assert _computed(store, tmp_path, SignNet=LaplacianPE(4)) == []
    assert _computed(apply(store, {"RWSE": RandomWalkSE([1, 2])}, tmp_path), tmp_path, LapPE=LaplacianPE(4)) == []


def test_a_new_version_is_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _computed(_store(), tmp_path, RWSE=RandomWalkSE([1])) == ["RWSE"]
    monkeypatch.setattr(RandomWalkSE, "version", 2)
    assert _computed(_store(), tmp_path, RWSE=RandomWalkSE([1])) == ["RWSE"]


def test_damage_is_repaired(tmp_path: Path) -> None:
    expected = apply(_store(), {"RWSE": RandomWalkSE([1, 2])}, tmp_path).pe["RWSE.landing"]
    [file] = tmp_path.rglob("*.safetensors")
    content = bytearray(file.read_bytes())
    content[-1] ^= 0xFF
    file.write_bytes(bytes(content))
    assert _computed(_store(), tmp_path, RWSE=RandomWalkSE([1, 2])) == ["RWSE"]
    again = apply(_store(), {"RWSE": RandomWalkSE([1, 2])}, tmp_path).pe["RWSE.landing"]
    torch.testing.assert_close(again, expected, rtol=0, atol=0)


@register("CountingSE", room="transforms")
class CountingSE:
    version: ClassVar[int] = 1

    def __init__(self, log: str) -> None:
        self.log = log

    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        with open(self.log, "a") as file:
            file.write("computed\n")
        return {"ones": torch.ones(store.num_nodes, 1)}


def _apply_counting(cache: Path, log: Path) -> None:
    assert apply(_store(), {"C": CountingSE(str(log))}, cache).pe["C.ones"].shape[1] == 1


def test_processes_do_the_work_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    log = tmp_path / "log"
    processes = [context.Process(target=_apply_counting, args=(tmp_path / "cache", log)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 3
    assert log.read_text() == "computed\n"


ARGUMENTS = {"LaplacianPE": {}, "RandomWalkSE": {"times": [1, 3]}, "CountingSE": {"log": "x"}}


@pytest.mark.parametrize("name", registry.names("transforms"))
def test_every_transform_keeps_its_arguments(name: str) -> None:
    assert name in ARGUMENTS, f"add arguments of {name} to this test"
    kind = registry.lookup("transforms", name)
    described = describe(kind(**ARGUMENTS[name]))
    assert set(described["arguments"]) == set(registry.parameters(kind))
    assert isinstance(described["version"], int)
    out = {} if name == "CountingSE" else kind(**ARGUMENTS[name])(_store())
    assert all(value.shape[0] == _store().num_nodes for value in out.values())
