"""Imports of PyTorch by a command, without garbage collection."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def frozen_imports() -> Iterator[None]:
    """Imports whose objects no collection looks at: neither now nor in training, nor when the process ends.

    Importing PyTorch makes objects by the hundred thousand, all of which stay. Where it is imported already, by a
    program that calls a command, nothing is done: that program's objects are not ours to keep.
    """
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
