"""Data sets that are parsed once: the graphs and their published split, from the cache where they are already."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from graphbench.data.download import file_sha256
from graphbench.data.roots import Roots
from graphbench.data.splits import PARTS, Splits
from graphbench.data.store import GraphStore
from graphbench.data.tensor_cache import cached_tensors

_log = logging.getLogger(__name__)


def cached_graphs(
    roots: Roots,
    family: str,
    name: str,
    files: Iterable[Path],
    read: Callable[[], tuple[GraphStore, Splits]],
    version: int = 1,
    **settings: Any,
) -> tuple[GraphStore, Splits]:
    """What ``read`` returns, without reading again what was read before.

    Args:
        roots: where the cache is.
        family: folder in the cache.
        name: readable beginning of the file name.
        files: raw files; their content is part of the address.
        read: parses them.
        version: of the parsing code: raise it when the same files give other graphs.
        settings: whatever else the result depends on; JSON values.
    """
    key = {
        "family": family,
        "name": name,
        "version": version,
        "settings": settings,
        "raw": {file.name: file_sha256(file) for file in files},
    }

    def compute() -> dict[str, Any]:
        _log.info("reading the raw files of %s", name)
        store, splits = read()
        return store.tensors() | {f"split.{part}": index for part, index in splits.parts().items()}

    tensors = cached_tensors(roots.cache / family, name, key, compute)
    splits = Splits(*(tensors.pop(f"split.{part}") for part in PARTS))
    return GraphStore.from_tensors(tensors), splits


def in_order(counts: Sequence[int]) -> Splits:
    """Train, val and test one after the other, with so many examples each."""
    bounds = np.cumsum([0, *counts])
    return Splits.of(*(np.arange(low, high) for low, high in pairwise(bounds)))
