"""Cache of parsed data sets: graphs and their published split, by the content of the raw files."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from graphbench.data.files.checksums import remembered_checksum
from graphbench.data.files.download import file_sha256
from graphbench.data.files.raw_files import reading
from graphbench.data.files.roots import Roots
from graphbench.data.files.tensor_cache import cached_tensors
from graphbench.data.splits import PARTS, Splits
from graphbench.data.store import GraphStore

_log = logging.getLogger(__name__)

_LAYOUT = 2
"""Layout of the tensors in a file; raised when what is stored changes for every data set."""


def cached_graphs(
    roots: Roots,
    folder: str,
    name: str,
    files: Sequence[Path],
    read: Callable[[], tuple[GraphStore, Splits]],
    version: int = 1,
    **settings: Any,
) -> tuple[GraphStore, Splits]:
    """The result of ``read``, computed once for the same raw files.

    Args:
        roots: folders of data and cache.
        folder: folder below the cache.
        name: readable beginning of the file name.
        files: raw files; their content is part of the address.
        read: parses them.
        version: version of the parsing code: raise it when the same files give other graphs.
        settings: everything else that the result depends on; JSON values.
    """
    key = {
        "layout": _LAYOUT,
        "family": folder,
        "name": name,
        "version": version,
        "settings": settings,
        "raw": {file.name: raw_checksum(file, roots.cache) for file in files},
    }

    def compute() -> dict[str, Any]:
        _log.info("reading the raw files of %s", name)
        with reading(*files):
            store, splits = read()
        extra = {f"split.{part}": index for part, index in splits.parts().items()}
        return store.tensors() | extra | {"fingerprint": torch.tensor(list(bytes.fromhex(store.fingerprint)))}

    tensors = cached_tensors(roots.cache / folder, name, key, compute)
    splits = Splits.of(*(tensors.pop(f"split.{part}") for part in PARTS))
    fingerprint = bytes(tensors.pop("fingerprint").tolist()).hex()
    return GraphStore.from_tensors(tensors).with_fingerprint(fingerprint), splits


def raw_checksum(file: Path, cache: Path) -> str:
    """sha256 of a raw file, remembered in the cache (never next to raw files)."""
    name = hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:32]
    return remembered_checksum(file, cache / "checksums" / f"{name}.checked", lambda: file_sha256(file))
