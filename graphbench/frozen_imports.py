"""Imports of PyTorch by a command, without garbage collection."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def frozen_imports() -> Iterator[None]:
    """Imports whose objects no collection looks at: neither now nor in training, nor when the process ends.

    Importing PyTorch makes 160,000 objects, all of which stay; looking at them takes about as long as making a quarter
    of them. Where PyTorch is imported already, by a program that calls a command, nothing is done: its objects are not
    ours to keep.
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
