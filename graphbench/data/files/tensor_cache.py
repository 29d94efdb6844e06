"""Tensors on disk that are computed once: content-addressed, atomic, locked, verified, mapped into memory.

A result lies in ``<folder>/<readable name>-<hash of its key>.safetensors``; the key (a JSON of everything the result
depends on) and a checksum of the tensors are in the file's header. Nothing in such a file can be executed.

Opening maps the file: what is read is loaded then, all processes share it, and the system takes it out of memory when
that is needed elsewhere. Writing onto such a tensor changes the copy of one process, never the file. Every opening
compares header, key and length; the checksum of the whole content is compared at the first opening and after every
change of the file (small files: always), see :mod:`graphbench.data.files.checksums`.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import safetensors
from safetensors.torch import save_file
from torch import Tensor

from graphbench import atomic
from graphbench.data.files.cache_lock import cache_lock
from graphbench.data.files.checksums import remembered_checksum
from graphbench.data.store_tensors import digest
from graphbench.errors import RunFailed

_log = logging.getLogger(__name__)


def cached_tensors(
    folder: Path, name: str, key: Mapping[str, Any], compute: Callable[[], Mapping[str, Tensor]]
) -> dict[str, Tensor]:
    """The tensors that ``compute`` returns, mapped from disk.

    Two processes asking for the same key do the work once: the second waits. A damaged file, or one that holds
    something else, is computed again, with one line of warning that says why.

    Args:
        folder: the cache; created.
        name: readable beginning of the file name, e.g. ``"LapPE"``.
        key: everything the result depends on; JSON values.
        compute: function called when the result is not there.

    Returns:
        Tensors by name.
    """
    described = json.dumps(key, sort_keys=True)
    path = cache_path(folder, name, key)
    tensors = _read(path, described)
    if tensors is not None:
        return tensors
    with cache_lock(path.with_suffix(".lock"), path.stem):
        tensors = _read(path, described)  # another process may have finished while this one waited
        if tensors is not None:
            return tensors
        atomic.sweep(folder, path.name)
        _write(path, described, compute())
        tensors = _read(path, described)  # what was computed leaves memory, the file is mapped in its place
    if tensors is None:
        raise OSError(f"{path} cannot be read back right after it was written: is the disk full or failing?")
    return tensors


def cache_path(folder: Path, name: str, key: Mapping[str, Any]) -> Path:
    """The file of a result; arguments as of :func:`cached_tensors`."""
    address = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:32]
    return folder / f"{name}-{address}.safetensors"


def _read(path: Path, key: str) -> dict[str, Tensor] | None:
    if not path.is_file():
        return None
    try:
        with safetensors.safe_open(path, framework="pt") as file:  # refuses a file of another length than announced
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}
        if header.get("key") != key:
            reason = "it holds something else"
        elif remembered_checksum(path, _note(path), lambda: digest(tensors)) != header.get("sha256"):
            reason = "its checksum is wrong"
        else:
            return tensors
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
    _log.warning("%s is damaged (%s) and is computed again", path, reason)
    return None


def _note(path: Path) -> Path:
    return path.with_suffix(".checked")


def _write(path: Path, key: str, computed: Mapping[str, Tensor]) -> None:
    tensors = _apart(computed)
    # A folder: safetensors writes under a name of its own first, which nobody could tell from those of others.
    with atomic.temporary(path) as scratch:
        scratch.mkdir()
        partial = scratch / "tensors"
        try:
            save_file(tensors, partial, metadata={"key": key, "sha256": digest(tensors)})
        except safetensors.SafetensorError as error:  # which names no file
            raise RunFailed(f"{path} cannot be written ({error}). The same command goes on once it can.") from error
        partial.chmod(scratch.stat().st_mode & 0o666)  # save_file lets nobody but its user read, a cache may be shared
        atomic.put(partial, path)


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous tensors on the host that share no memory, which the format refuses; copied only where they do."""
    apart: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, value in tensors.items():
        tensor = value.detach().cpu().contiguous()
        memory = tensor.untyped_storage().data_ptr()
        apart[name] = tensor.clone() if memory in seen else tensor
        seen.add(memory)
    return apart
