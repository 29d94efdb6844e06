"""Imports of a command without garbage collection."""

from __future__ import annotations

import gc
import subprocess
import sys

from graphbench.frozen_imports import frozen_imports

PROGRAM = """
import gc
from graphbench.frozen_imports import frozen_imports

kept = []
for error in (None, ImportError):
    before = gc.get_freeze_count()
    kept += [[] for _ in range(1000)]
    try:
        with frozen_imports():
            assert not gc.isenabled()
            if error:
                raise error
    except ImportError:
        pass
    assert gc.isenabled()
    assert gc.get_freeze_count() >= before + 1000
"""


def test_what_is_imported_is_kept_out_of_collections() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)


def test_objects_of_a_program_that_calls_a_command_are_collected() -> None:
    before = gc.get_freeze_count()
    with frozen_imports():  # where PyTorch is imported
        assert gc.isenabled()
    assert gc.get_freeze_count() == before
