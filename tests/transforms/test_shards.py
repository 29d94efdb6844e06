"""Encodings in shards: those of all graphs together, whoever computes them, and whatever is broken off."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest
import torch

from graphbench import registry
from graphbench.data.files.sharded_tensors import ShardedTensors
from graphbench.transforms.algorithms import shards
from graphbench.transforms.algorithms.cache import apply
from graphbench.transforms.algorithms.dense_blocks import StackTransform
from graphbench.transforms.algorithms.shards import apply_shard
from graphbench.transforms.laplacian_pe import LaplacianPE
from graphbench.transforms.random_walk_edge_se import RandomWalkEdgeSE
from graphbench.transforms.random_walk_se import RandomWalkSE
from tests.transforms.test_contract import example, transform_of

NAMES = [
    name for name in registry.names("transforms") if issubclass(registry.lookup("transforms", name), StackTransform)
]


def encodings():
    return {"RWSE": RandomWalkSE([1, 2, 5]), "LapPE": LaplacianPE(4), "edges": RandomWalkEdgeSE([2])}


def assert_equal(found, expected):
    for group in ("pe", "edge_pe", "pair_pe"):
        assert getattr(found, group).keys() == getattr(expected, group).keys()
        for name, values in getattr(expected, group).items():
            torch.testing.assert_close(getattr(found, group)[name], values, equal_nan=True)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("count", [1, 4, 9])
def test_shards_are_the_whole(name: str, count: int, tmp_path: Path) -> None:
    """More shards than graphs too; what needs all graphs is left to the computation of all of them."""
    transforms = {"T": transform_of(name)}
    done = [apply_shard(example(), transforms, tmp_path / "shards", number, count) for number in range(count)]
    separate = transforms["T"].by_graph
    assert done == ([False] * (count - 1) + [True] if separate else [True] * count)
    said: list[str] = []
    found = apply(example(), transforms, tmp_path / "shards", said.append)
    assert bool(said) == (not separate)
    assert_equal(found, apply(example(), transforms, tmp_path / "whole"))


def _compute(folder: Path, numbers: list[int]) -> None:
    for number in numbers:
        apply_shard(example(), encodings(), folder, number, 4)


def test_a_process_killed_after_its_last_shard_leaves_nothing_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(self: ShardedTensors) -> None:
        raise KeyboardInterrupt

    assert not apply_shard(example(), encodings(), tmp_path, 0, 2)
    with monkeypatch.context() as killed:
        killed.setattr(ShardedTensors, "_end", kill)
        with pytest.raises(KeyboardInterrupt):
            apply_shard(example(), encodings(), tmp_path, 1, 2)
    assert apply_shard(example(), encodings(), tmp_path, 1, 2, pytest.fail), "nothing is computed, all is put together"
    apply(example(), encodings(), tmp_path, pytest.fail)


@pytest.mark.slow
def test_processes_share_a_file(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_compute, args=(tmp_path / "shards", numbers)) for numbers in ([0, 2], [3, 1])]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    found = apply(example(), encodings(), tmp_path / "shards", pytest.fail)
    assert_equal(found, apply(example(), encodings(), tmp_path / "whole"))
    left = {file.suffix for file in (tmp_path / "shards/transforms").iterdir()}
    assert left <= {".safetensors", ".lock", ".checked"}


def test_what_is_finished_is_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed, encode = [], shards.encode

    def counted(part, transforms):
        computed.append(part.num_graphs)
        if len(computed) == 2:
            raise KeyboardInterrupt
        return encode(part, transforms)

    monkeypatch.setattr(shards, "encode", counted)
    assert not apply_shard(example(), encodings(), tmp_path, 0, 3)
    with pytest.raises(KeyboardInterrupt):
        apply_shard(example(), encodings(), tmp_path, 1, 3)
    for number in range(3):
        apply_shard(example(), encodings(), tmp_path, number, 3)
    assert len(computed) == 4
    assert apply_shard(example(), encodings(), tmp_path, 1, 3)
    assert len(computed) == 4
