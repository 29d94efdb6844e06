"""What the system is told about mapped files, as it shows it itself."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from graphbench.data.large.arrays import allocate, buffer_tensor, create, open_graph
from graphbench.data.large.generator import power_law
from graphbench.data.large.loader import LoaderOptions
from graphbench.data.large.neighbor_loader import NeighborLoader
from graphbench.data.large.page_advice import read_at_random, return_free_memory
from graphbench.data.loading.process import LoaderProcess
from graphbench.data.splits import Splits

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/smaps")


def advised(tensor: torch.Tensor) -> bool:
    """Whether the page of the first entry is in a mapping with ``rr``, reads at random."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, *rest = line.split()
        if not name.endswith(":"):
            first, last = (int(end, 16) for end in name.split("-"))
            inside = first <= tensor.data_ptr() < last
        elif inside and name == "VmFlags:":
            return "rr" in rest
    pytest.skip("this system does not say how a mapping is read")


def test_a_mapped_file_is_read_at_random(tmp_path: Path) -> None:
    create(tmp_path / "x.npy", (1000, 30), np.float32)[:] = 1
    x = torch.from_numpy(np.load(tmp_path / "x.npy", mmap_mode="c"))
    assert not advised(x)
    read_at_random(x)
    assert advised(x)
    assert float(x[::7].sum()) == 30 * len(range(0, 1000, 7))
    read_at_random(torch.empty(0))


def held() -> int:
    """Anonymous bytes of this process."""
    return 1024 * int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0])


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library keeps other blocks")
@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="another allocator may be loaded")
def test_freed_memory_goes_back_to_the_system() -> None:
    """2,000 blocks of 64 KiB below one that is in use, so that the C library cannot give them back by itself."""
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.free.argtypes = [ctypes.c_void_p]
    blocks = [library.malloc(ctypes.c_size_t(2**16)) for _ in range(2001)]
    for block in blocks:
        ctypes.memset(block, 1, 2**16)
    for block in blocks[:-1]:
        library.free(block)
    before = held()
    return_free_memory()
    assert held() <= before - 2**26
    library.free(blocks[-1])


def test_rows_gathered_from_all_over_the_place_are_not_read_ahead_until_they_are_released() -> None:
    rows = allocate((1000, 30), torch.float32, in_memory=0)
    buffer_tensor(rows)[:] = torch.arange(1000.0)[:, None]
    assert rows.gather(torch.tensor([3, 999]))[:, 0].tolist() == [3, 999]
    assert advised(buffer_tensor(rows))
    rows.release()
    assert not advised(buffer_tensor(rows))


@pytest.mark.parametrize(("options", "random"), [({}, True), ({"exact": "full_batch"}, False)])
def test_sampled_neighbourhoods_alone_read_a_graph_at_random(tmp_path: Path, options: dict, random: bool) -> None:
    power_law(tmp_path, 2000, 3000, 0)
    store = open_graph(tmp_path)
    splits = Splits(*torch.arange(60).split([20, 20, 20]))
    given = LoaderOptions(LoaderProcess(0), "neighbor", **options)
    NeighborLoader(store, splits, given, sizes=(3, 2), batch_size=5)
    assert advised(store.x) == random
    assert not advised(store.edge_index)
