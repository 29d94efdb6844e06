"""Batches from plain tensors, kept as long as the tensors they were made from."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from graphbench import registry
from graphbench.data.store import GraphStore
from graphbench.structures import GraphBatch, Ragged
from graphbench.structures.memo import asking
from graphbench.structures.reads import Reads
from graphbench.transforms.algorithms.cache import with_outputs

Transforms = tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]
"""Names of transforms with their arguments, hashable."""


@dataclass(frozen=True)
class PlainGraphs:
    """A batch, and how its edges were reordered.

    Attributes:
        batch: the graphs, edges grouped by graph.
        order: (E,) position in ``edge_index`` of every edge of the batch; None: the same order.
    """

    batch: GraphBatch
    order: Tensor | None

    def arrange(self, edges: Tensor | None) -> Tensor | None:
        """Rows of edges (E, ...) in the order of the batch."""
        return edges if edges is None or self.order is None else edges.index_select(0, self.order)

    def restore(self, edges: Tensor) -> Tensor:
        """Inverse of :meth:`arrange`."""
        return edges if self.order is None else torch.empty_like(edges).index_copy(0, self.order, edges)


def hashable(transforms: Mapping[str, Mapping[str, Any]]) -> Transforms:
    """Hashable key of :meth:`~graphbench.layers.contract.GraphLayer.required_transforms`."""
    return tuple((name, tuple(sorted(arguments.items()))) for name, arguments in transforms.items())


@torch.compiler.disable  # type: ignore[untyped-decorator]
def plain_graphs(
    num_nodes: int,
    edge_index: Tensor,
    batch: Tensor | None = None,
    *,
    ptr: Tensor | None = None,
    edge_attr: Tensor | None = None,
    transforms: Transforms = (),
) -> PlainGraphs:
    """The batch that layers read; the host waits for the device when it sees these tensors first.

    Args:
        num_nodes: N.
        edge_index: (2, E) int64, source and target, numbered through the batch.
        batch: (N,) graph of every node, ascending; None: one graph, or as ``ptr`` says.
        ptr: (G+1,) first node of every graph and the total, in place of ``batch``.
        edge_attr: (E, D) integer edge types, for layers that read them.
        transforms: transforms that the graphs need, as :func:`hashable` returns them.

    Raises:
        ValueError: the tensors do not describe graphs.
    """
    if batch is not None and ptr is not None:
        raise ValueError("give batch (N,) or ptr (G+1,), received both")
    given = (edge_index, batch, ptr, edge_attr)
    # What is computed in inference mode can take no part in training afterwards: it is kept apart.
    key = (num_nodes, torch.is_inference_mode_enabled(), *(id(tensor) for tensor in given))
    present = _cache.get(key)
    if present is None or present.versions != _versions(given):
        present = _cache[key] = _Entry(_build(num_nodes, *given), _versions(given))
        for tensor in given:
            if tensor is not None:
                weakref.finalize(tensor, _cache.pop, key, None)
    graphs = present.graphs
    if not transforms:
        return graphs
    return PlainGraphs(graphs.batch.derived(_transformed, transforms), graphs.order)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def prepare(layer: nn.Module, h: Tensor, e: Tensor | None, batch: GraphBatch) -> None:
    """Prepares a batch for a layer that is called next, in code that users compile themselves.

    What it reads is found out by calling it once, without gradients and with random numbers of its own.

    Args:
        layer: called with ``(h, e, batch)``.
        h: node states.
        e: edge states, or None.
        batch: prepared.
    """
    reads = _reads_of.setdefault(layer, {})
    if layer.training not in reads:
        devices = [h.device] if h.device.type == "cuda" else []
        with torch.no_grad(), torch.random.fork_rng(devices), asking(set()) as asked:
            layer(h, e, batch)
        reads[layer.training] = Reads.of(batch, asked)
    reads[layer.training].prepare(batch)


@dataclass(frozen=True)
class _Entry:
    """A batch and the states (counted by PyTorch) of the tensors when it was made."""

    graphs: PlainGraphs
    versions: tuple[int, ...]


_cache: dict[tuple[int, ...], _Entry] = {}
_reads_of: weakref.WeakKeyDictionary[nn.Module, dict[bool, Reads]] = weakref.WeakKeyDictionary()


def _versions(tensors: tuple[Tensor | None, ...]) -> tuple[int, ...]:
    """Versions that change with the content: PyTorch's count; a hash for tensors of inference mode, which have none."""
    return tuple(
        -1 if tensor is None else hash(tensor.cpu().numpy().tobytes()) if tensor.is_inference() else tensor._version
        for tensor in tensors
    )


def _build(
    num_nodes: int, edge_index: Tensor, batch: Tensor | None, ptr: Tensor | None, edge_attr: Tensor | None
) -> PlainGraphs:
    if not isinstance(edge_index, Tensor):
        raise ValueError(f"edge_index must be integers of shape (2, E), received {type(edge_index).__name__}")
    if edge_index.dim() != 2 or edge_index.shape[0] != 2 or not _is_integer(edge_index):
        received = f"{str(edge_index.dtype).removeprefix('torch.')} of shape {tuple(edge_index.shape)}"
        raise ValueError(f"edge_index must be integers of shape (2, E), received {received}")
    if edge_attr is not None and len(edge_attr) != edge_index.shape[1]:
        raise ValueError(f"edge_attr must have {edge_index.shape[1]} rows, one per edge, received {len(edge_attr)}")
    ragged = Ragged.from_sizes(_sizes(num_nodes, batch, ptr), edge_index.device)
    if ragged.num_rows != num_nodes:
        raise ValueError(f"batch or ptr describes {ragged.num_rows} nodes, x has {num_nodes}")
    if edge_index.numel() and (int(edge_index.min()) < 0 or int(edge_index.max()) >= num_nodes):
        least, most = int(edge_index.min()), int(edge_index.max())
        raise ValueError(f"edge_index names node {least if least < 0 else most}, x has {num_nodes}")
    source, target = ragged.graph_id[edge_index]
    if not bool((source == target).all()):
        edge = int((source != target).nonzero()[0])
        raise ValueError(f"edge {edge} joins graphs {int(source[edge])} and {int(target[edge])}")
    order = None
    if bool((source[1:] < source[:-1]).any()):
        order = torch.argsort(source, stable=True)
    # Aliases: the cache must not keep alive the tensors whose end empties it.
    alias = edge_index.detach() if order is None else edge_index[:, order]
    graphs = PlainGraphs(GraphBatch(ragged, alias), order)
    types = graphs.arrange(edge_attr.detach()) if edge_attr is not None else None
    return PlainGraphs(graphs.batch.replace(edge_attr=types), order)


def _sizes(num_nodes: int, batch: Tensor | None, ptr: Tensor | None) -> list[int]:
    for name, given in (("batch", batch), ("ptr", ptr)):
        if given is not None and not _is_integer(given):
            raise ValueError(f"{name} must be integers, received {str(given.dtype).removeprefix('torch.')}")
    if ptr is not None:
        if not len(ptr) or int(ptr[0]) != 0:
            raise ValueError(f"ptr must begin with 0, received {ptr[:3].tolist()}")
        return ptr.diff().tolist()
    if batch is None:
        return [num_nodes]
    if len(batch) and int(batch[0]) < 0:
        raise ValueError(f"batch must not be negative, received {int(batch[0])}")
    if bool((batch[1:] < batch[:-1]).any()):
        raise ValueError("batch must be ascending: the nodes of a graph together, as PyTorch Geometric's loader has it")
    return torch.bincount(batch).tolist()


def _is_integer(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


def _transformed(batch: GraphBatch, transforms: Transforms) -> GraphBatch:
    """The batch with what transforms compute, as a data set's store would have it."""
    first = batch.ragged.ptr[batch.ragged.graph_id[batch.edge_index[0]]]
    edges = (batch.edge_index - first).cpu()
    counts = torch.bincount(batch.ragged.graph_id[batch.edge_index[0]], minlength=batch.num_graphs)
    attr = None if batch.edge_attr is None else batch.edge_attr.cpu()
    store = GraphStore.from_arrays(list(batch.ragged.sizes), counts.cpu(), edges, edge_attr=attr)
    built = {name: registry.lookup(registry.TRANSFORMS, name)(**dict(arguments)) for name, arguments in transforms}
    named = {_NAMES.get(name, name): transform for name, transform in built.items()}
    store = with_outputs(store, named, {name: transform(store) for name, transform in named.items()})
    return store.gather(range(store.num_graphs)).to(batch.device)


_NAMES = {"Expander": "expander"}
"""Names that outputs have in a batch, where they are not those of the transform."""
