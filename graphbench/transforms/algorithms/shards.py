"""Encodings computed in shards: a range of the graphs each, by as many processes and machines as there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TypeGuard

import torch

from graphbench.data.files.progress import Display
from graphbench.data.files.sharded_tensors import ShardedTensors
from graphbench.data.store import GraphStore
from graphbench.transforms.algorithms.cache import FOLDER, cache_key
from graphbench.transforms.algorithms.dense_blocks import StackTransform, encode
from graphbench.transforms.base import Transform


def apply_shard(
    store: GraphStore,
    transforms: Mapping[str, Transform],
    cache_dir: str | Path,
    shard: int,
    shards: int,
    progress: Callable[[str], None] | None = None,
) -> bool:
    """Computes the encodings of a range of the graphs, unless they are on disk, for :func:`.cache.apply` to find.

    Memory is that of the graphs and of the shard. Transforms for which a graph is not one of its own
    (:attr:`.StackTransform.by_graph`) are left to :func:`.cache.apply`.

    Args:
        store: all graphs.
        transforms: transforms by the name that their outputs get.
        cache_dir: folder for results, which all processes share.
        shard: number of the range, from 0.
        shards: number of shards.
        progress: takes lines of text; None: nothing is shown.

    Returns:
        Whether the encodings of all shards are on disk now.
    """
    nodes, edges, pairs = store.node_ptr.numpy(), store.edge_ptr.numpy(), store.pair_ptr
    first, last = (store.num_graphs * number // shards for number in (shard, shard + 1))
    begins = {"node": nodes[first], "edge": edges[first], "pair": pairs[first]}
    part = _part(store, first, last)
    files = _files(store, transforms, cache_dir, shards)
    absent = [transform for transform, file in files.items() if not file.has(shard)]
    if absent:
        names = ", ".join(transform.registered_name for transform in absent)
        text = f"computing {names} of {last - first:,} graphs from number {first:,}, shard {shard} of {shards}"
        with nullcontext() if progress is None else Display(text, progress):
            computed = encode(part, absent)
        for transform, outputs in zip(absent, computed, strict=True):
            begin = int(begins[transform.level])
            files[transform].write(shard, {name: (begin, values) for name, values in outputs.items()})
    return all([file.finish() for file in files.values()])  # a list: every one, whether or not another is complete


def missing_shards(
    store: GraphStore, transforms: Mapping[str, Transform], cache_dir: str | Path, shards: int
) -> list[int]:
    """Numbers of the shards that :func:`apply_shard` would compute."""
    files = _files(store, transforms, cache_dir, shards).values()
    return [shard for shard in range(shards) if not all(file.has(shard) for file in files)]


def _files(
    store: GraphStore, transforms: Mapping[str, Transform], cache_dir: str | Path, shards: int
) -> dict[StackTransform, ShardedTensors]:
    """Files of every transform whose rows depend on one graph alone."""
    counts = {"node": int(store.node_ptr[-1]), "edge": int(store.edge_ptr[-1]), "pair": int(store.pair_ptr[-1])}
    folder, files = Path(cache_dir) / FOLDER, {}
    for transform in filter(_by_graph, transforms.values()):
        shapes = {
            name: (counts[transform.level], *blank.shape[1:])
            for name, blank in transform.blank(_part(store, 0, 0), torch.float32).items()
        }
        name = transform.registered_name
        files[transform] = ShardedTensors(folder, name, cache_key(store, transform), shapes, shards)
    return files


def _by_graph(transform: Transform) -> TypeGuard[StackTransform]:
    return isinstance(transform, StackTransform) and transform.by_graph


def _part(store: GraphStore, first: int, last: int) -> GraphStore:
    """Consecutive graphs, without features and encodings."""
    node_ptr, edge_ptr = (ptr[first : last + 1] - ptr[first] for ptr in (store.node_ptr, store.edge_ptr))
    edges = slice(int(store.edge_ptr[first]), int(store.edge_ptr[last]))
    return GraphStore(node_ptr=node_ptr, edge_ptr=edge_ptr, edge_index=store.edge_index[:, edges])
