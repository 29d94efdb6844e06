"""Advice to the system about the pages of mapped files, and the memory that is free."""

from __future__ import annotations

import ctypes
import mmap
import sys
from functools import cache
from typing import Any

from torch import Tensor


def read_at_random(tensor: Tensor) -> None:
    """No reading ahead: rows are read from all over the place, and pages around them would displace the others.

    The mapping behind a tensor is not at hand, so that its addresses are named (madvise(2), MADV_RANDOM); for memory
    without a file, and on Windows, nothing changes.

    Args:
        tensor: contiguous, on the host.
    """
    if sys.platform == "win32" or not tensor.numel():
        return
    first, last = tensor.data_ptr(), tensor.data_ptr() + tensor.numel() * tensor.element_size()
    start = first - first % mmap.PAGESIZE
    _libc().madvise(ctypes.c_void_p(start), ctypes.c_size_t(last - start), mmap.MADV_RANDOM)


def return_free_memory() -> None:
    """Gives what was freed back to the system, where pages of files find room: the C library keeps small blocks.

    Of glibc (malloc_trim(3)); behind a training on parts of 200,000 nodes it holds more than a gigabyte.
    """
    trim = None if sys.platform == "win32" else getattr(_libc(), "malloc_trim", None)
    if trim is not None:
        trim(0)


@cache
def _libc() -> Any:
    return ctypes.CDLL(None)
