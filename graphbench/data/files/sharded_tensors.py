"""A file of the cache that several processes write, each its rows: on one machine, or on a file system they share.

The file has its full length from the beginning, and every shard goes to its place in it, so that putting them
together copies nothing. A shard that is on disk leaves a mark beside the file, with a checksum of what it has written;
with the last one that of the whole is written into the header, and the file gets the name under which
:func:`~graphbench.data.files.tensor_cache.cached_tensors` looks for it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import safetensors
import torch
from torch import Tensor

from graphbench import atomic
from graphbench.data.files.cache_lock import cache_lock
from graphbench.data.files.tensor_cache import cache_path
from graphbench.data.store_tensors import digest
from graphbench.errors import naming

_log = logging.getLogger(__name__)

_UNKNOWN = "0" * 64
"""Checksum in the header of an unfinished file."""


class ShardedTensors:
    """Float32 tensors by name, whose rows come in shards.

    Args:
        folder: folder of the cache; created.
        name: readable beginning of the file's name.
        key: everything that the tensors depend on; JSON values.
        shapes: shapes of the whole tensors.
        shards: number of shards. The shards of another number are others.
    """

    def __init__(
        self, folder: Path, name: str, key: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], shards: int
    ) -> None:
        self._path, self._shards = cache_path(folder, name, key), shards
        self._partial = folder / f".{self._path.name}.{shards}-shards"
        described, begins, first = {}, {}, 0
        for tensor, shape in sorted(shapes.items()):
            last = first + 4 * prod(shape)
            described[tensor] = {"dtype": "F32", "shape": list(shape), "data_offsets": [first, last]}
            begins[tensor], first = first, last
        metadata = {"key": json.dumps(key, sort_keys=True), "sha256": _UNKNOWN}
        header = json.dumps({"__metadata__": metadata, **described}).encode()
        header += b" " * (-len(header) % 8)
        self._header = len(header).to_bytes(8, "little") + header
        self._begin = {tensor: len(self._header) + begin for tensor, begin in begins.items()}
        self._length = len(self._header) + first
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def is_finished(self) -> bool:
        """Whether the whole file is there."""
        return self._path.is_file()

    def has(self, shard: int) -> bool:
        """Whether a shard is on disk, as far as its mark says."""
        return self.is_finished or (self._mark(shard).exists() and self._partial.exists())

    def finish(self) -> bool:
        """Ends the file if all shards are on disk; whether it is there now. Damaged ones lose their marks.

        Whoever wrote the last shard may have been killed before: this is asked even if nothing is left to compute.
        """
        with cache_lock(self._lock, self._path.stem):
            if not self.is_finished and all(self._is_whole(each) for each in range(self._shards)):
                self._end()
        return self.is_finished

    def write(self, shard: int, rows: Mapping[str, tuple[int, Tensor]]) -> None:
        """Puts one shard to its place.

        Args:
            shard: number of the shard, from 0.
            rows: first row and rows of every tensor.
        """
        with cache_lock(self._lock, self._path.stem):
            if self.is_finished:  # another process computed the same shard, and all others are there
                return
            if not self._partial.exists():
                self._allocate()
        written = []
        with naming(self._partial), self._partial.open("rb+") as file:
            for name, (first, values) in rows.items():
                content = values.detach().to("cpu", torch.float32).contiguous().view(-1).view(torch.uint8).numpy().data
                place = self._begin[name] + 4 * first * prod(values.shape[1:])
                file.seek(place)
                file.write(content)
                written.append([place, len(content), hashlib.sha256(content).hexdigest()])
            file.flush()
            os.fsync(file.fileno())
        atomic.write_text(self._mark(shard), json.dumps(written))

    def _allocate(self) -> None:
        for shard in range(self._shards):
            self._mark(shard).unlink(missing_ok=True)  # of a file that somebody has deleted
        with atomic.replacing(self._partial) as file:
            file.write(self._header)
            file.truncate(self._length)

    def _is_whole(self, shard: int) -> bool:
        """Whether a shard is in the file as it was written; if not, its mark is taken away."""
        if not self.has(shard):
            return False
        try:
            with self._partial.open("rb") as file:
                for place, length, checksum in json.loads(self._mark(shard).read_text()):
                    file.seek(place)
                    if hashlib.sha256(file.read(length)).hexdigest() != checksum:
                        raise ValueError("its checksum is wrong")
        except (ValueError, TypeError) as error:
            _log.warning("%s: shard %d is damaged (%s) and has to be computed again", self._partial, shard, error)
            self._mark(shard).unlink()
            return False
        return True

    def _end(self) -> None:
        with self._partial.open("rb+") as file:
            file.write(self._header)  # whatever has happened to it
        with safetensors.safe_open(self._partial, framework="pt") as file:
            checksum = digest({name: file.get_tensor(name) for name in file.keys()})
        with self._partial.open("rb+") as file:
            file.seek(self._header.index(_UNKNOWN.encode()))
            file.write(checksum.encode())
        atomic.put(self._partial, self._path)
        for shard in range(self._shards):
            self._mark(shard).unlink(missing_ok=True)

    def _mark(self, shard: int) -> Path:
        return self._partial.with_name(f"{self._partial.name}.{shard}")

    @property
    def _lock(self) -> Path:
        return self._path.with_suffix(".lock")
