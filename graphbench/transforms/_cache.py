"""Encodings of a whole data set, computed once per (graphs, transform, arguments, version) and kept on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from graphbench.data.store import GraphStore, StoredEdges
from graphbench.data.tensor_cache import cached_tensors
from graphbench.registry import parameters


class Transform(Protocol):
    """A class of this room. It keeps every constructor argument as an attribute of the same name.

    Attributes:
        registered_name: set by ``@register``.
        version: raised whenever the same arguments give other numbers than before.
        level: what a row of an output belongs to; a class without it gives node-wise encodings.

            ======== =============================================== =======================================
            node     (N, ...)                                        ``store.pe["<name>.<output>"]``
            edge     (E, ...)                                        ``store.edge_pe["<name>.<output>"]``
            pair     ``distance`` (sum of n_g^2,) uint8              ``store.pairs``
                     others (sum of n_g^2, ...)                      ``store.pair_pe["<name>.<output>"]``
            edge_set ``index`` (2, M) numbered inside each graph,    ``store.edge_sets["<name>"]``
                     ``ptr`` (G+1,), optionally ``attr`` (M, ...)
            ======== =============================================== =======================================
    """

    registered_name: str
    version: int

    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        """Outputs by name."""
        ...


def apply(
    store: GraphStore,
    transforms: Mapping[str, Transform],
    cache_dir: str | Path,
    progress: Callable[[str], None] | None = None,
) -> GraphStore:
    """Adds encodings to a store.

    Args:
        store: the graphs.
        transforms: by the name under which their outputs are wanted (the encoder's), e.g. ``{"LapPE": ...}``.
        cache_dir: folder for results; never one with raw data.
        progress: called with a line of text before something is computed that was not on disk.

    Returns:
        The store with every output of every transform, see :class:`Transform`.
    """
    added: dict[str, Any] = {"pe": {}, "edge_pe": {}, "pair_pe": {}, "edge_sets": {}, "pairs": None}
    for name, transform in transforms.items():

        def compute(transform: Transform = transform, name: str = name) -> dict[str, Tensor]:
            if progress is not None:
                progress(f"computing {name} of {store.num_graphs:,} graphs, {store.num_nodes:,} nodes")
            return transform(store)

        key = {"store": store.fingerprint, **describe(transform)}
        folder = Path(cache_dir) / "transforms"
        outputs = cached_tensors(folder, transform.registered_name, key, compute)
        level = getattr(transform, "level", "node")
        if level == "edge_set":
            added["edge_sets"][name] = StoredEdges(**outputs)
        else:
            if level == "pair":
                added["pairs"] = outputs.pop("distance", added["pairs"])
            group = added[{"node": "pe", "edge": "edge_pe", "pair": "pair_pe"}[level]]
            group.update({f"{name}.{output}": values for output, values in outputs.items()})
    return store.with_encodings(**added)


def describe(transform: Transform) -> dict[str, Any]:
    """Name, version and arguments of a transform, as JSON values."""
    arguments = {name: getattr(transform, name) for name in parameters(type(transform))}
    return {"transform": transform.registered_name, "version": transform.version, "arguments": arguments}
