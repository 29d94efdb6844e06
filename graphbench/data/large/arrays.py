"""Arrays that may be larger than memory: one graph on disk, and buffers for what is computed from it.

A graph on disk is a folder of plain ``.npy`` files, ``edge_index`` (2, E), ``x`` (N, F) and ``y`` (N,), written in
pieces and mapped into memory when opened: only what is read is loaded, and the system takes it out again when memory
is needed elsewhere. Nothing in them can be executed.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.errors import RunFailed, UserError
from graphbench.structures.node_blocks import HostRows

IN_MEMORY = 2**30
"""Bytes up to which a computed array is kept in memory; larger ones go to a temporary file ($TMPDIR)."""


def allocate(shape: Sequence[int], dtype: torch.dtype, in_memory: int | None = None) -> HostRows:
    """Uninitialised memory for a tensor on the host, in a file that vanishes with it where it is large.

    Args:
        shape: shape of the tensor.
        dtype: type of the tensor.
        in_memory: bytes up to which it is kept in memory; None: :data:`IN_MEMORY`.

    Raises:
        RunFailed: the disk is full.
    """
    entries = int(np.prod(shape, dtype=np.int64))
    size = entries * torch.empty((), dtype=dtype).element_size()
    if size == 0 or size <= (IN_MEMORY if in_memory is None else in_memory):
        return HostRows(torch.empty(*shape, dtype=dtype))
    with tempfile.TemporaryFile(prefix="graphbench.") as file:  # already without a name where the system allows it
        advice = "free some, or set TMPDIR to a folder on a larger disk."
        _reserve(file.fileno(), size, f"intermediate results in {tempfile.gettempdir()}; {advice}")
        mapped = mmap.mmap(file.fileno(), size)
    return HostRows(torch.frombuffer(mapped, dtype=dtype, count=entries).view(*shape), mapped)


def buffer_tensor(buffer: HostRows) -> Tensor:
    """The tensor of an allocated buffer, which is never sparse."""
    assert isinstance(buffer.tensor, Tensor)
    return buffer.tensor


def create(path: Path, shape: Sequence[int], dtype: np.dtype | type) -> np.memmap:
    """A new ``.npy`` file to be written in pieces; see :func:`open_graph`.

    Raises:
        RunFailed: the disk is full.
    """
    array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=tuple(shape))
    with path.open("rb+") as file:
        _reserve(file.fileno(), path.stat().st_size, f"{path}; free some, or move the cache ($GRAPHBENCH_CACHE).")
    return array


def _reserve(file: int, size: int, what: str) -> None:
    """Allocates the space at once: a mapped file on a full disk would end the process without a message."""
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file, 0, size)
        else:
            os.truncate(file, size)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise RunFailed(f"no room for {size / 2**20:,.0f} MiB of {what}") from error


def open_graph(folder: Path) -> GraphStore:
    """One graph with targets per node from a folder of ``.npy`` files, mapped into memory.

    Args:
        folder: holds ``edge_index.npy`` (2, E) integer, ``y.npy`` (N,) and optionally ``x.npy`` (N, F).

    Raises:
        UserError: a file is missing or damaged, or their sizes disagree.
    """
    edge_index, y = _mapped(folder / "edge_index.npy"), _mapped(folder / "y.npy")
    x = _mapped(folder / "x.npy") if (folder / "x.npy").exists() else None
    if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_index.is_floating_point():
        raise UserError(
            f"{folder / 'edge_index.npy'}: must hold integers of shape (2, edges), received {edge_index.dtype} of "
            f"shape {tuple(edge_index.shape)}"
        )
    try:
        return GraphStore(
            node_ptr=torch.tensor([0, y.shape[0]]),
            edge_ptr=torch.tensor([0, edge_index.shape[1]]),
            edge_index=edge_index,
            x=x,
            y=y,
            y_level="node",
        )
    except ValueError as error:
        raise UserError(f"{folder}: the files do not belong together: {error}") from None


def _mapped(path: Path) -> Tensor:
    try:
        # "c": a tensor has to be writable; what is written would stay in memory, and nothing is.
        array = np.load(path, mmap_mode="c", allow_pickle=False)
        return torch.from_numpy(array)
    except FileNotFoundError:
        raise UserError(f"{path}: not there") from None
    except (OSError, ValueError, EOFError, TypeError) as error:
        raise UserError(f"{path}: damaged, or no array of numbers ({str(error).splitlines()[0]})") from None
