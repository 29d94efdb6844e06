"""Cache of graphs too large for memory: a folder of ``.npy`` files, written once, mapped when opened.

The counterpart of :mod:`graphbench.data.files.cached_graphs`. The folder is named after the content of the raw
files; it appears whole or not at all, and two processes do the work once. ``graph.json`` in it states the checksum of
every file; they are read in full again only after a file has changed (:mod:`graphbench.data.files.checksums`). A
conversion that was broken off (killed, a full disk) goes on behind the last file that it finished (:func:`once`).
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from graphbench import atomic
from graphbench.data.files.cache_lock import cache_lock
from graphbench.data.files.cached_graphs import raw_checksum
from graphbench.data.files.checksums import remembered_checksum
from graphbench.data.files.download import file_sha256
from graphbench.data.files.progress import Display
from graphbench.data.files.roots import Roots
from graphbench.data.large.arrays import open_graph
from graphbench.data.splits import PARTS, Splits
from graphbench.data.store import GraphStore
from graphbench.errors import Interrupted, RunFailed, UserError

_log = logging.getLogger(__name__)

_DESCRIPTION = "graph.json"


def cached_large_graph(
    roots: Roots,
    subfolder: str,
    name: str,
    files: Iterable[Path],
    write: Callable[[Path], Splits],
    version: int = 1,
    **settings: Any,
) -> tuple[GraphStore, Splits]:
    """The graph that ``write`` leaves in a folder, converted once for the same raw files.

    Args:
        roots: folders of data and cache.
        subfolder: folder below the cache.
        name: readable beginning of the folder's name.
        files: raw files; their content is part of the address.
        write: puts ``edge_index.npy``, ``x.npy`` and ``y.npy`` (:func:`~graphbench.data.large.arrays.open_graph`) into
            the folder it is given, each through :func:`once` where it takes long, and returns the published split.
        version: version of the converting code: raise it when the same files give another graph.
        settings: everything else that the result depends on; JSON values.

    Returns:
        The mapped graph, with its fingerprint: that of the files, so that nothing is read to know it.

    Raises:
        UserError: what ``write`` raises.
    """
    key = {
        "name": name,
        "version": version,
        "settings": settings,
        "raw": {file.name: raw_checksum(file, roots.cache) for file in files},
    }
    address = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:32]
    folder = roots.cache / subfolder / f"{name}-{address}"
    opened = _open(folder, key)
    if opened is None:
        with cache_lock(folder.with_suffix(".lock"), f"the files of {name}"):
            opened = _open(folder, key)  # another process may have finished while this one waited
            if opened is None:
                _convert(folder, key, write)
                opened = _open(folder, key)
    if opened is None:
        raise OSError(f"{folder} cannot be read back right after it was written: is the disk full or failing?")
    return opened


def _convert(folder: Path, key: dict[str, Any], write: Callable[[Path], Splits]) -> None:
    partial = folder.with_name(f".{folder.name}.unfinished")  # of whoever holds the lock
    partial.mkdir(exist_ok=True)
    atomic.sweep(partial)
    finished = sorted(file.name for file in partial.glob("*.npy"))
    if finished:
        _log.info("%s: going on behind %s, which an earlier conversion finished", folder, ", ".join(finished))
    try:
        with Display(f"converting the raw files of {key['name']} into {folder}", say=_log.info):
            splits = write(partial)
        for part, index in splits.parts().items():
            np.save(partial / f"{part}.npy", index.numpy())
        checksums = {file.name: _checksum(file) for file in sorted(partial.glob("*.npy"))}
        (partial / _DESCRIPTION).write_text(json.dumps({"key": key, "files": checksums}))
        for stated in partial.glob(".*.sha256"):
            stated.unlink()
        if folder.exists():  # a damaged one
            shutil.rmtree(folder)
        atomic.rename(partial, folder)
    except Exception as error:
        if not isinstance(error, (OSError, MemoryError, RunFailed, Interrupted)):  # the same would happen again
            shutil.rmtree(partial, ignore_errors=True)
        raise


def once(path: Path, write: Callable[[Path], object]) -> np.ndarray:
    """The array in a file of a conversion, mapped, written unless an earlier attempt has finished it.

    Args:
        path: the ``.npy`` file.
        write: writes the file that it is given, which gets its name when it is whole and on disk.
    """
    stated = path.with_name(f".{path.name}.sha256")
    if path.exists() and not (stated.exists() and stated.read_text() == _checksum(path)):
        _log.warning("%s is not what an earlier conversion has finished, and is written again", path)
        path.unlink()
    if not path.exists():
        with atomic.temporary(path) as unfinished:
            write(unfinished)
            atomic.put(unfinished, path)
        stated.write_text(_checksum(path))
    return np.load(path, mmap_mode="c")  # tensors have to be writable; nothing is written


def _open(folder: Path, key: dict[str, Any]) -> tuple[GraphStore, Splits] | None:
    if not folder.is_dir():
        return None
    try:
        described = json.loads((folder / _DESCRIPTION).read_text())
        wrong = [name for name, stated in described["files"].items() if _checksum(folder / name) != stated]
        if described["key"] != key or wrong:
            raise ValueError(f"the checksum of {wrong[0]} is wrong" if wrong else "it holds something else")
        store = open_graph(folder)
        splits = Splits.of(*(np.load(folder / f"{part}.npy") for part in PARTS))
    except (OSError, ValueError, KeyError, TypeError, UserError) as error:
        _log.warning("%s is damaged (%s) and is converted again", folder, str(error).splitlines()[0])
        return None
    fingerprint = hashlib.sha256(json.dumps(described["files"], sort_keys=True).encode()).hexdigest()
    return store.with_fingerprint(fingerprint), splits


def _checksum(file: Path) -> str:
    return remembered_checksum(file, file.with_suffix(".checked"), lambda: file_sha256(file))
