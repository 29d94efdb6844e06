"""Encodings of a whole data set, kept on disk: computed once per graphs, transform, arguments, version and plug-in."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphbench import plug_ins, user_code
from graphbench.contract import broken
from graphbench.data.files.cache_lock import cache_lock
from graphbench.data.files.progress import Display
from graphbench.data.files.tensor_cache import cached_tensors
from graphbench.data.store import GraphStore
from graphbench.data.stored_pairs import StoredEdges, StoredHops
from graphbench.registry import parameters
from graphbench.transforms.base import JointTransform, Transform

FOLDER = "transforms"
"""Name of the folder below that of all caches."""


def apply(
    store: GraphStore,
    transforms: Mapping[str, Transform],
    cache_dir: str | Path,
    progress: Callable[[str], None] | None = None,
) -> GraphStore:
    """Adds encodings to a store.

    What is not on disk is computed; transforms that work on stacks of dense matrices share one pass over the graphs
    (and its eigendecompositions), and so do those that search for subgraphs. Each has a file of its own: changing one
    leaves the others where they are. Two processes that ask for encodings of the same graphs do the work once: the
    second waits.

    Args:
        store: the graphs.
        transforms: transforms by the name that their outputs get (the encoder's), e.g. ``{"LapPE": ...}``.
        cache_dir: folder for results; never one with raw data.
        progress: takes lines of text: what is computed, and how long it will take. None: nothing is shown.

    Returns:
        The store with every output of every transform, see :class:`~graphbench.transforms.base.Transform`.

    Raises:
        ValueError: two transforms measure different distances (other cut-offs).
    """
    files = _Files(Path(cache_dir) / FOLDER, store)
    outputs = files.read(transforms)
    if len(outputs) < len(transforms):
        names = [name for name in transforms if name not in outputs]
        with cache_lock(files.folder / f"{store.fingerprint[:32]}.lock", ", ".join(names)):
            outputs |= files.read({name: transform for name, transform in transforms.items() if name not in outputs})
            absent = {name: transform for name, transform in transforms.items() if name not in outputs}
            for group in _groups(absent):
                text = f"computing {', '.join(group)} of {store.num_graphs:,} graphs, {store.num_nodes:,} nodes"
                with nullcontext() if progress is None else Display(text, progress):
                    computed = compute(store, group)
                for name, transform in group.items():
                    outputs[name] = files.write(transform, computed[name])
    return with_outputs(store, transforms, outputs)


def with_outputs(
    store: GraphStore, transforms: Mapping[str, Transform], outputs: Mapping[str, Mapping[str, Tensor]]
) -> GraphStore:
    """The store with the outputs of transforms where their level says.

    Args:
        store: the graphs.
        transforms: transforms by the name that their outputs get.
        outputs: outputs of each transform, by name.

    Raises:
        ValueError: two transforms measure different distances (other cut-offs).
    """
    added: dict[str, Any] = {"pe": {}, "edge_pe": {}, "pair_pe": {}, "edge_sets": {}, "pairs": None, "hops": None}
    for name, transform in transforms.items():
        values = dict(outputs[name])
        if transform.level == "edge_set":
            added["edge_sets"][name] = StoredEdges(**values)
        elif transform.level == "hops":
            added["hops"] = StoredHops(**values)
        else:
            if transform.level == "pair" and "distance" in values:
                distance = values.pop("distance")
                if added["pairs"] is not None and not torch.equal(added["pairs"], distance):
                    raise ValueError(f"{name} measures other distances than a transform before it; a graph has one set")
                added["pairs"] = distance
            group_of_level = added[{"node": "pe", "edge": "edge_pe", "pair": "pair_pe"}[transform.level]]
            group_of_level.update({f"{name}.{output}": value for output, value in values.items()})
    return store.with_encodings(**added)


class _Absent(Exception):
    """An output is not on disk."""


@dataclass(frozen=True)
class _Files:
    """Files with the encodings of one store."""

    folder: Path
    store: GraphStore

    def read(self, transforms: Mapping[str, Transform]) -> dict[str, dict[str, Tensor]]:
        """Outputs by name, of those transforms that have a file."""

        def absent() -> dict[str, Tensor]:
            raise _Absent

        outputs = {}
        for name, transform in transforms.items():
            with suppress(_Absent):
                outputs[name] = self._cached(transform, absent)
        return outputs

    def write(self, transform: Transform, outputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Keeps the outputs of a transform."""
        return self._cached(transform, lambda: outputs)

    def _cached(self, transform: Transform, compute: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        return cached_tensors(self.folder, transform.registered_name, cache_key(self.store, transform), compute)


def cache_key(store: GraphStore, transform: Transform) -> dict[str, Any]:
    """Key of everything that the encodings of some graphs depend on."""
    return {"store": store.fingerprint, **describe(transform)}


def _groups(transforms: Mapping[str, Transform]) -> list[dict[str, Transform]]:
    """Transforms that one pass over the graphs serves together; the others alone."""
    groups: dict[object, dict[str, Transform]] = {}
    for name, transform in transforms.items():
        shared = transform.together if isinstance(transform, JointTransform) else name
        groups.setdefault(shared, {})[name] = transform
    return list(groups.values())


def compute(store: GraphStore, group: Mapping[str, Transform]) -> dict[str, dict[str, Tensor]]:
    """The outputs of transforms that share a pass over the graphs (or of one), by name.

    Raises:
        ContractError: a result that is no dict of tensors with the declared names.
        ValueError: an encoding that is not finite.
    """
    first, *_ = members = list(group.values())
    method: Callable[..., Any] = type(first).__call__
    if isinstance(first, JointTransform):
        method, outputs = type(first).together, first.together(store, members)
    else:
        outputs = [first(store)]
    for (name, transform), output in zip(group.items(), outputs, strict=True):
        named = isinstance(output, dict) and set(output) <= set(transform.outputs)
        if not (named and all(isinstance(value, Tensor) for value in output.values())):
            expected = f"a dict of tensors named {' and '.join(transform.outputs)} (outputs)"
            raise broken(method, expected, output)
        for key, values in output.items():
            _check_finite(store, name, transform, key, values)
    return dict(zip(group, outputs, strict=True))


def _check_finite(store: GraphStore, name: str, transform: Transform, output: str, values: Tensor) -> None:
    """Refuses an output that holds no numbers, which would show as a loss or a metric that is none.

    Raises:
        ValueError: naming the encoding and the first such graph.
    """
    missing = transform.missing_value
    if not values.is_floating_point() or (missing is None and bool(values.sum().isfinite())):
        return
    wrong = ~values.isfinite()
    if missing is not None:
        wrong &= ~(values.isnan() if math.isnan(missing) else values == missing)
    if not bool(wrong.any()):
        return
    begins = {"node": store.node_ptr, "edge": store.edge_ptr, "pair": torch.from_numpy(store.pair_ptr)}
    begin, where = begins.get(transform.level), ""
    if begin is not None and len(values) == int(begin[-1]):  # other lengths are refused where they are added
        where = f", the first in graph {int((begin <= wrong.nonzero()[0, 0]).sum()) - 1}"
    raise ValueError(
        f"encoding '{name}.{output}' has {int(wrong.sum()):,} values that are nan or infinite{where} (computed by "
        f"{transform.registered_name}, {plug_ins.place(type(transform))})"
    )


def describe(transform: Transform) -> dict[str, Any]:
    """Name, version and arguments of a transform, and digests of users' code that it comes from, as JSON values."""
    arguments = {name: getattr(transform, name) for name in parameters(type(transform))}
    described = {"transform": transform.registered_name, "version": transform.version, "arguments": arguments}
    code = [hashlib.sha256(text).hexdigest() for text in user_code.of_component(type(transform)).values()]
    return {**described, "code": code} if code else described
