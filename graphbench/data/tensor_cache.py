"""Results on disk that are computed once: content-addressed, atomic, locked, verified when read.

A result lies in ``<folder>/<readable name>-<hash of its key>.safetensors``; the key (a JSON of everything the result
depends on) and a checksum of the tensors are in the file's header. Nothing in such a file can be executed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import safetensors
from filelock import FileLock
from safetensors.torch import save_file
from torch import Tensor

from graphbench.data.store import digest

_log = logging.getLogger(__name__)


def cached_tensors(
    folder: Path, name: str, key: Mapping[str, Any], compute: Callable[[], Mapping[str, Tensor]]
) -> dict[str, Tensor]:
    """The tensors that ``compute`` returns, from disk where they are already.

    Two processes asking for the same key do the work once: the second waits. A damaged file is rebuilt, with one
    line of warning.

    Args:
        folder: the cache; created.
        name: readable beginning of the file name, e.g. ``"LapPE"``.
        key: everything the result depends on; JSON values.
        compute: called when the result is not there.

    Returns:
        Tensors by name.
    """
    described = json.dumps(key, sort_keys=True)
    address = hashlib.sha256(described.encode()).hexdigest()[:32]
    path = folder / f"{name}-{address}.safetensors"
    found = _read(path, described)
    if found is not None:
        return found
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        found = _read(path, described)  # another process may have finished while this one waited
        if found is not None:
            return found
        tensors = {each: value.detach().cpu().contiguous() for each, value in compute().items()}
        _write(path, described, tensors)
    return tensors


def _read(path: Path, key: str) -> dict[str, Tensor] | None:
    if not path.is_file():
        return None
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}
        if header.get("key") == key and header.get("sha256") == digest(tensors):
            return tensors
        reason = "its checksum is wrong"
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
    _log.warning("%s is damaged (%s) and is computed again", path, reason)
    return None


def _write(path: Path, key: str, tensors: Mapping[str, Tensor]) -> None:
    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        # Tensors that share memory are refused by the format, hence the copies.
        copies = {name: value.clone() for name, value in tensors.items()}
        save_file(copies, partial, metadata={"key": key, "sha256": digest(tensors)})
        with open(partial, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        Path(partial).unlink(missing_ok=True)
