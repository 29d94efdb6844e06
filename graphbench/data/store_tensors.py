"""A store as named tensors, the form in which it is saved and fingerprinted."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from torch import Tensor

from graphbench.data.stored_pairs import StoredEdges
from graphbench.structures import Features, SparseRows

if TYPE_CHECKING:
    from graphbench.data.store import GraphStore

Level = Literal["graph", "node", "pair"]
"""Kind of a row of targets; the tensor is called ``y_<level>``."""

_SPARSE = ("ptr", "column", "value")
_PAIRS = ("ptr", "index", "attr")


def named_tensors(store: GraphStore) -> dict[str, Tensor]:
    """The stored graphs, encodings left out. Inverse: :func:`store_fields`."""
    named = {"node_ptr": store.node_ptr, "edge_ptr": store.edge_ptr, "edge_index": store.edge_index}
    optional = {**named_features(store.x), "edge_attr": store.edge_attr, f"y_{store.y_level}": store.y}
    for name, pairs in store.edge_sets.items():
        if name not in store.computed:
            optional |= {f"{field}.{name}": getattr(pairs, field) for field in _PAIRS}
    return named | {name: value for name, value in optional.items() if value is not None}


def named_features(x: Features | None) -> dict[str, Tensor | None]:
    """Node features: one tensor, or the parts of sparse rows."""
    if not isinstance(x, SparseRows):
        return {"x": x}
    return {"x_width": torch.tensor(x.width), **{f"x_{field}": getattr(x, field) for field in _SPARSE}}


def store_fields(named: Mapping[str, Tensor]) -> dict[str, Any]:
    """The constructor arguments of the store that :func:`named_tensors` described."""
    rest = dict(named)
    fields: dict[str, Any] = {"edge_sets": {}}
    for name in [name.removeprefix("index.") for name in named if name.startswith("index.")]:
        attr = rest.pop(f"attr.{name}", None)
        fields["edge_sets"][name] = StoredEdges(rest.pop(f"ptr.{name}"), rest.pop(f"index.{name}"), attr)
    for level in get_args(Level):
        if f"y_{level}" in rest:
            fields |= {"y": rest.pop(f"y_{level}"), "y_level": level}
    if "x_width" in rest:
        ptr, column, value = (rest.pop(f"x_{field}") for field in _SPARSE)
        fields["x"] = SparseRows(ptr, column, value, int(rest.pop("x_width")))
    return rest | fields


def digest(tensors: Mapping[str, Tensor]) -> str:
    """sha256 over names, types, shapes and bytes of some tensors."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name].detach().cpu().contiguous()
        total.update(f"{name}:{value.dtype}:{tuple(value.shape)};".encode())
        total.update(value.reshape(-1).view(torch.uint8).numpy().data if value.numel() else b"")
    return total.hexdigest()
