"""Parameters as ``graphbench export`` writes them: one safetensors file with its checksum and the run that it is of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load, save
from torch import Tensor

from graphbench.runs.record import RunRecord


def exported(model: Mapping[str, Tensor], record: RunRecord) -> bytes:
    """The content of the file.

    Args:
        model: parameters and buffers; contiguous, without shared memory.
        record: record of the run that has trained them.
    """
    run = json.dumps(vars(record.own_identity))
    return save(dict(model), metadata={"run": run, "sha256": _checksum(model)})


def read_exported(file: Path) -> dict[str, Any]:
    """``model``, and ``run`` where the file says of which one it is: those of earlier versions do not.

    Raises:
        OSError, ValueError, SafetensorError: the file is damaged.
    """
    content = file.read_bytes()
    model = load(content)
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")]).get("__metadata__", {})
    if "sha256" in header and header["sha256"] != _checksum(model):
        raise ValueError("its checksum is wrong")
    return {"model": model, "run": json.loads(header["run"]) if "run" in header else None}


def _checksum(model: Mapping[str, Tensor]) -> str:
    return hashlib.sha256(save(dict(model))).hexdigest()
