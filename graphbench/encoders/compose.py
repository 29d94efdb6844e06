"""Encoders of a model, composed of their parts: what the data set gives, beside what the structure gives.

``[ features | encoding | encoding ... ]``, then encoders that work on the whole, then optionally a BatchNorm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from graphbench.encoders.inputs import edge_features, stored_features
from graphbench.layers.norm import BatchNorm
from graphbench.structures import Features, GraphBatch, as_dense


class NodeEncoder(nn.Module):
    """First hidden state of the nodes: features and positional encodings side by side.

    The widths of the parts must add up to ``dim``: build the features at ``dim`` minus all ``dim_pe``.

    Args:
        features: module ``batch -> (N, d)``; None leaves the node features out.
        positional: modules ``batch -> (N, dim_pe)`` by name, in the order of the result. With neither features nor
            encodings the result is ``batch.x`` as it is; sparse rows stay so where :func:`keep_sparse` was called and
            nothing follows.
        dim: width of the result.
        batch_norm: BatchNorm over the result (``dataset.node_encoder_bn``), after everything else.
        join: ``concat`` as above; ``add``: the parts, all of width ``dim``, are added (``dataset.node_encoder_join``).
        contextual: :class:`~graphbench.encoders.contract.BatchEncoder` modules by name, run one after the other on the
            concatenation. They take no columns; they may change ``h``, leave what they computed for later layers in
            the batch's state, and prepend nodes.
        norm_eps: of the BatchNorm (``bn.eps``).
        norm_momentum: of its running statistics (``bn.mom``).

    Shape:
        batch -> (N, dim) and the batch to go on with
    """

    def __init__(
        self,
        features: nn.Module | None,
        positional: Mapping[str, nn.Module],
        dim: int,
        batch_norm: bool,
        contextual: Mapping[str, nn.Module] | None = None,
        join: Literal["concat", "add"] = "concat",
        norm_eps: float = 1e-5,
        norm_momentum: float = 0.1,
    ) -> None:
        super().__init__()
        self.join = join
        self.features = features
        self.positional = nn.ModuleDict(positional)
        self.contextual = nn.ModuleDict(contextual or {})
        self.norm = BatchNorm(dim, eps=norm_eps, momentum=norm_momentum) if batch_norm else None
        self.dim = dim
        self.keeps_sparse = False

    def forward(self, batch: GraphBatch) -> tuple[Features, GraphBatch]:
        """Encodes every node."""
        encoders = _parts(self.features, self.positional)
        parts = [encoder(batch) for encoder in encoders] or [_raw(batch)]
        if self.join == "add" and len(parts) > 1:
            h: Features = _added(encoders, [as_dense(part) for part in parts], self.dim)
        else:
            h = _side_by_side("node", encoders, parts, self.dim)
        if not self.keeps_sparse or self.contextual or self.norm is not None:
            h = as_dense(h)
        for encoder in self.contextual.values():
            h, batch = encoder(h, batch)
        return (h if self.norm is None else self.norm(h)), batch


def keep_sparse(encoder: nn.Module) -> nn.Module:
    """The encoder, whose result may be sparse rows from now on: a model calls it whose first layers can read them."""
    if isinstance(encoder, NodeEncoder):
        encoder.keeps_sparse = True
    return encoder


class EdgeEncoder(nn.Module):
    """First hidden state of the edges: features and edge-wise encodings side by side.

    Args:
        features: module ``batch -> (E, d)``; None leaves the edge features out.
        positional: modules ``batch -> (E, dim_pe)`` by name (``level = "edge"``), in the order of the result.
            With neither features nor encodings the result is ``batch.edge_attr`` as it is.
        dim: width of the result, the sum of all parts.
        batch_norm: BatchNorm over the result (``dataset.edge_encoder_bn``).
        norm_eps: of the BatchNorm (``bn.eps``).
        norm_momentum: of its running statistics (``bn.mom``).

    Shape:
        batch -> (E, dim)
    """

    def __init__(
        self,
        features: nn.Module | None,
        positional: Mapping[str, nn.Module],
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
        """Encodes every edge."""
        encoders = _parts(self.features, self.positional)
        parts = [encoder(batch) for encoder in encoders] or [_raw_edges(batch)]
        e = _side_by_side("edge", encoders, parts, self.dim)
        return e if self.norm is None else self.norm(e)


def _parts(features: nn.Module | None, positional: nn.ModuleDict) -> list[nn.Module]:
    return [*([] if features is None else [features]), *positional.values()]


def _added(encoders: list[nn.Module], parts: list[Tensor], dim: int) -> Tensor:
    widths = [part.shape[1] for part in parts]
    if any(width != dim for width in widths):
        names = ", ".join(type(each).__name__ for each in encoders)
        raise ValueError(f"the parts of the node encoder ({names}) have widths {widths}, which must all be {dim}")
    return torch.stack(parts).sum(0)


def _side_by_side(what: str, encoders: list[nn.Module], parts: list[Features], dim: int) -> Features:
    widths = [part.shape[1] for part in parts]
    if sum(widths) != dim:
        names = ", ".join(type(each).__name__ for each in encoders) or "the raw features"
        raise ValueError(f"the parts of the {what} encoder ({names}) have widths {widths}, which must add up to {dim}")
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def _raw(batch: GraphBatch) -> Features:
    return _floating(stored_features(batch, "a model without node encoder"))


def _raw_edges(batch: GraphBatch) -> Tensor:
    e = _floating(edge_features(batch, "an edge encoder without parts"))
    return e if e.dim() == 2 else e[:, None]


def _floating(values: Features) -> Features:
    return values if values.is_floating_point() else values.to(torch.get_default_dtype())
