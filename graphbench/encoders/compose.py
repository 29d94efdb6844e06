"""Node and edge encoder of a model: ``[ features | encoding | encoding ... ]``, changes of the whole, a BatchNorm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, cast

import torch
from torch import Tensor, nn

from graphbench.contract import broken
from graphbench.encoders.contract import BatchEncoder, ColumnEncoder, FeatureEncoder
from graphbench.encoders.inputs import edge_features, stored_features
from graphbench.errors import ContractError
from graphbench.layers.norm import BatchNorm
from graphbench.structures import Features, GraphBatch, as_dense


class NodeEncoder(nn.Module):
    """First hidden state of the nodes: features and positional encodings, concatenated or added.

    The widths of the parts must add up to ``dim``: build the features with ``dim`` minus all ``dim_pe``.

    Args:
        features: encoder ``batch -> (N, d)``; None leaves the node features out.
        positional: encoders ``batch -> (N, dim_pe)`` by name, in the order of the result. With neither features nor
            encodings the result is ``batch.x`` as it is.
        dim: width of the result.
        batch_norm: BatchNorm over the result (``dataset.node_encoder_bn``), after everything else.
        batch_encoders: encoders by name that are applied to the concatenation, one after the other. They add no
            columns; they may change ``h``, compute state for later layers, and prepend nodes. Kept as ``contextual``,
            a name in stored checkpoints.
        join: ``concat`` as above; ``add``: the parts, all of width ``dim``, are added (``dataset.node_encoder_join``).
        norm_eps: eps of the BatchNorm (``bn.eps``).
        norm_momentum: momentum of the BatchNorm's running statistics (``bn.mom``).

    Attributes:
        keeps_sparse: sparse rows of ``batch.x`` stay sparse, where nothing encodes them and nothing follows; set by
            models whose first layers read them.

    Shape:
        batch -> (N, dim) and the batch to go on with
    """

    def __init__(
        self,
        features: FeatureEncoder | None,
        positional: Mapping[str, ColumnEncoder],
        dim: int,
        batch_norm: bool,
        batch_encoders: Mapping[str, BatchEncoder] | None = None,
        join: Literal["concat", "add"] = "concat",
        norm_eps: float = 1e-5,
        norm_momentum: float = 0.1,
    ) -> None:
        super().__init__()
        self.join = join
        self.features = features
        self.positional = nn.ModuleDict(positional)
        self.contextual = nn.ModuleDict(batch_encoders or {})
        self.norm = BatchNorm(dim, eps=norm_eps, momentum=norm_momentum) if batch_norm else None
        self.dim = dim
        self.keeps_sparse = False

    @property
    def batch_encoders(self) -> dict[str, BatchEncoder]:
        """The encoders that are applied to the concatenation, by name."""
        return cast("dict[str, BatchEncoder]", dict(self.contextual.items()))

    def forward(self, batch: GraphBatch) -> tuple[Features, GraphBatch]:
        """First node states (N, dim), and the batch to go on with."""
        encoders = _encoders(self.features, self.positional)
        if not encoders:
            x = _floating(stored_features(batch, "a model without node encoder"))
            _check_widths("node", encoders, [x.shape[1]], self.dim)
            if self.keeps_sparse and not self.contextual and self.norm is None:
                return x, batch
            h = as_dense(x)
        elif self.join == "add":
            h = _added("node", encoders, _parts(encoders, batch, "node"), self.dim)
        else:
            h = _concatenated("node", encoders, _parts(encoders, batch, "node"), self.dim)
        for batch_encoder in self.batch_encoders.values():
            h, batch = batch_encoder(h, batch)
        return (h if self.norm is None else self.norm(h, batch)), batch


class EdgeEncoder(nn.Module):
    """First hidden state of the edges: features and edge-wise encodings, concatenated.

    Args:
        features: encoder ``batch -> (E, d)``; None leaves the edge features out.
        positional: encoders ``batch -> (E, dim_pe)`` by name (``level = "edge"``), in the order of the result. With
            neither features nor encodings the result is ``batch.edge_attr`` as it is.
        dim: width of the result, the sum of all parts.
        batch_norm: BatchNorm over the result (``dataset.edge_encoder_bn``).
        norm_eps: eps of the BatchNorm (``bn.eps``).
        norm_momentum: momentum of the BatchNorm's running statistics (``bn.mom``).

    Shape:
        batch -> (E, dim)
    """

    def __init__(
        self,
        features: FeatureEncoder | None,
        positional: Mapping[str, ColumnEncoder],
        dim: int,
        batch_norm: bool,
        norm_eps: float = 1e-5,
        norm_momentum: float = 0.1,
    ) -> None:
        super().__init__()
        self.features = features
        self.positional = nn.ModuleDict(positional)
        self.norm = BatchNorm(dim, eps=norm_eps, momentum=norm_momentum) if batch_norm else None
        self.dim = dim

    def forward(self, batch: GraphBatch) -> Tensor:
        """First edge states (E, dim)."""
        encoders = _encoders(self.features, self.positional)
        parts = _parts(encoders, batch, "edge") or [_raw_edges(batch)]
        e = _concatenated("edge", encoders, parts, self.dim)
        return e if self.norm is None else self.norm(e, batch, "edge")


def _encoders(features: nn.Module | None, positional: nn.ModuleDict) -> list[nn.Module]:
    """The encoders whose columns make the first state, in order."""
    encoders = list(positional.values())
    return encoders if features is None else [features, *encoders]


def _parts(encoders: Sequence[nn.Module], batch: GraphBatch, level: str) -> list[Tensor]:
    """Columns of all encoders for a batch, refused where they have no row per node (edge)."""
    rows = batch.num_nodes if level == "node" else batch.num_edges
    parts = [encoder(batch) for encoder in encoders]
    for encoder, part in zip(encoders, parts, strict=True):
        if not (isinstance(part, Tensor) and part.dim() == 2 and part.shape[0] == rows):
            raise broken(type(encoder).forward, f"({rows}, columns): one row per {level}", part)
    return parts


def _added(level: str, encoders: Sequence[nn.Module], parts: Sequence[Tensor], dim: int) -> Tensor:
    widths = [part.shape[1] for part in parts]
    if any(width != dim for width in widths):
        raise ContractError(
            f"the parts of the {level} encoder ({_names(encoders)}) have widths {widths}, which must all be {dim}"
        )
    return torch.stack(list(parts)).sum(0)


def _concatenated(level: str, encoders: Sequence[nn.Module], parts: Sequence[Tensor], dim: int) -> Tensor:
    _check_widths(level, encoders, [part.shape[1] for part in parts], dim)
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim=1)


def _check_widths(level: str, encoders: Sequence[nn.Module], widths: Sequence[int], dim: int) -> None:
    """Refuses parts whose widths do not add up to ``dim``.

    Raises:
        ContractError: naming the parts.
    """
    if sum(widths) != dim:
        raise ContractError(
            f"the parts of the {level} encoder ({_names(encoders)}) have widths {list(widths)}, which must add up to "
            f"{dim}"
        )


def _names(encoders: Sequence[nn.Module]) -> str:
    return ", ".join(type(encoder).__name__ for encoder in encoders) or "the raw features"


def _raw_edges(batch: GraphBatch) -> Tensor:
    e = as_dense(_floating(edge_features(batch, "an edge encoder without parts")))
    return e if e.dim() == 2 else e[:, None]


def _floating(values: Features) -> Features:
    return values if values.is_floating_point() else values.to(torch.get_default_dtype())
