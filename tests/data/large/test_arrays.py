"""Arrays on disk: written in pieces, mapped, refused when damaged."""

from __future__ import annotations

import errno
import gc
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from graphbench.data.large.arrays import allocate, create, open_graph
from graphbench.data.large.generator import power_law
from graphbench.errors import RunFailed, UserError


@pytest.mark.parametrize("in_memory", [2**30, 0])
def test_room_holds_what_is_written(in_memory):
    rows = allocate((50, 3), torch.float32, in_memory)
    assert (rows.mapped is None) == (in_memory > 0)
    values = torch.randn(50, 3)
    rows.tensor.copy_(values)
    rows.release()
    assert torch.equal(rows.tensor, values)
    assert allocate((0, 3), torch.float32, 0).tensor.shape == (0, 3)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="reads mappings the Linux way")
def test_files_vanish_with_their_tensors(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    rows = allocate((1000,), torch.int64, 0)
    assert list(tmp_path.iterdir()) == []
    assert _mappings(tmp_path) == 1
    del rows
    gc.collect()
    assert _mappings(tmp_path) == 0


def _mappings(folder: Path) -> int:
    return sum(str(folder) in line for line in Path("/proc/self/maps").read_text().splitlines())


def test_a_full_disk_ends_the_run_with_advice(monkeypatch, tmp_path):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(RunFailed, match=r"no room for 1 MiB of intermediate results .* set TMPDIR"):
        allocate((2**20,), torch.uint8, 0)
    with pytest.raises(RunFailed, match=r"no room for 1 MiB of .*x.npy; free some, or move the cache"):
        create(tmp_path / "x.npy", (2**20,), np.uint8)


def _written(folder, nodes=6, edges=4):
    create(folder / "edge_index.npy", (2, edges), np.int32)[:] = np.arange(2 * edges).reshape(2, edges) % nodes
    create(folder / "x.npy", (nodes, 2), np.float16)[:] = 1.5
    create(folder / "y.npy", (nodes,), np.uint8)[:] = np.arange(nodes)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="reads mappings the Linux way")
def test_a_graph_on_disk_is_mapped_not_copied(tmp_path):
    _written(tmp_path)
    store = open_graph(tmp_path)
    assert (store.num_graphs, store.num_nodes, store.num_edges, store.y_level) == (1, 6, 4, "node")
    assert store.edge_index.tolist() == [[0, 1, 2, 3], [4, 5, 0, 1]]
    for name in ("edge_index", "x", "y"):
        (start,) = [
            int(line.split("-")[0], 16)
            for line in Path("/proc/self/maps").read_text().splitlines()
            if line.endswith(str(tmp_path / f"{name}.npy"))
        ]
        assert 0 < getattr(store, name).data_ptr() - start < 4096  # behind the header of the mapped file


def test_damaged_folders_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"edge_index.npy: not there"):
        open_graph(tmp_path)
    _written(tmp_path)
    whole = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(whole[:-5])
    with pytest.raises(UserError, match=r"x.npy: damaged"):
        open_graph(tmp_path)
    np.save(tmp_path / "x.npy", np.array([{"a": 1}]), allow_pickle=True)
    with pytest.raises(UserError, match=r"x.npy: damaged, or no array of numbers"):
        open_graph(tmp_path)
    np.save(tmp_path / "x.npy", np.zeros((5, 2)))
    with pytest.raises(UserError, match="the files do not belong together: x must have 6 rows, received 5"):
        open_graph(tmp_path)
    np.save(tmp_path / "edge_index.npy", np.zeros((3, 2)))
    with pytest.raises(UserError, match=r"must hold integers of shape \(2, edges\), received torch.float64"):
        open_graph(tmp_path)


def test_generated_graph(tmp_path, monkeypatch):
    monkeypatch.setattr("graphbench.data.large.generator.PIECE", 3000)
    store = power_law(tmp_path / "a", 5000, 40_000, 0, columns=6, classes=5, homophily=0.6)
    assert (store.num_nodes, store.num_edges, tuple(store.x.shape)) == (5000, 40_000, (5000, 6))
    source, target = store.edge_index.long()
    assert torch.equal(source[::2], target[1::2])
    assert torch.equal(source[1::2], target[::2])
    assert not bool((source == target).any())
    y = store.y.long()
    assert torch.bincount(y).tolist() == [1000] * 5
    # 60 % are made alike, and a fifth of the others is by chance.
    assert float((y[source] == y[target]).float().mean()) == pytest.approx(0.68, abs=0.03)
    # A power law of exponent 2.5: P(degree >= d) ~ d^-1.5 between the mean and the largest degrees.
    degree = torch.bincount(target, minlength=5000)
    tail = [float((degree >= d).float().mean()) for d in (10, 80)]
    assert np.log(tail[0] / tail[1]) / np.log(8) == pytest.approx(1.5, abs=0.3)
    centre = torch.stack([store.x.float()[y == c].mean(0) for c in range(5)])
    nearest = torch.cdist(store.x.float(), centre).argmin(1)
    assert 0.3 < float((nearest == y).float().mean()) < 1
    again, other = (power_law(tmp_path / f"b{seed}", 5000, 40_000, seed, columns=6, classes=5) for seed in (0, 1))
    assert torch.equal(again.y, store.y)
    assert not torch.equal(other.edge_index, again.edge_index)


def test_generator_refuses_odd_requests(tmp_path):
    with pytest.raises(ValueError, match=r"need an even number of edges, .* received 3 edges"):
        power_law(tmp_path, 100, 3, 0)
