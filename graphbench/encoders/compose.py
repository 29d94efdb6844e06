"""Encoders of a model, composed of their parts: what the data set gives, beside what the structure gives.

``NodeEncoder``: [ features | positional encoding | positional encoding ... ], optionally through a BatchNorm.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from graphbench.encoders.inputs import node_features
from graphbench.layers.norm import BatchNorm
from graphbench.structures import GraphBatch


class NodeEncoder(nn.Module):
    """First hidden state of the nodes: features and positional encodings side by side.

    The widths of the parts must add up to ``dim``: build the features at ``dim`` minus all ``dim_pe``.

    Args:
        features: module ``batch -> (N, d)``; None leaves the node features out.
        positional: modules ``batch -> (N, dim_pe)`` by name, in the order of the result. With neither features nor
            encodings the result is ``batch.x`` as it is.
        dim: width of the result.
        batch_norm: BatchNorm over the result (``dataset.node_encoder_bn``).

    Shape:
        batch -> (N, dim)
    """

    def __init__(self, features: nn.Module | None, positional: Mapping[str, nn.Module], dim: int, batch_norm: bool):
        super().__init__()
        self.features = features
        self.positional = nn.ModuleDict(positional)
        self.norm = BatchNorm(dim) if batch_norm else None
        self.dim = dim

    def forward(self, batch: GraphBatch) -> Tensor:
        """Encodes every node."""
        encoders = [*([] if self.features is None else [self.features]), *self.positional.values()]
        parts = [encoder(batch) for encoder in encoders] or [_raw(batch)]
        if sum(part.shape[1] for part in parts) != self.dim:
            raise ValueError(
                f"the parts of the node encoder ({', '.join(type(each).__name__ for each in encoders) or 'batch.x'}) "
                f"have widths {[part.shape[1] for part in parts]}, which must add up to {self.dim}"
            )
        h = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
        return h if self.norm is None else self.norm(h)


def _raw(batch: GraphBatch) -> Tensor:
    x = node_features(batch, "a model without node encoder")
    return x if x.is_floating_point() else x.to(torch.get_default_dtype())


class EdgeEncoder(nn.Module):
    """First hidden state of the edges.

    Args:
        features: module ``batch -> (E, dim)``.
        dim: its width.
        batch_norm: BatchNorm over the result (``dataset.edge_encoder_bn``).

    Shape:
        batch -> (E, dim)
    """

    def __init__(self, features: nn.Module, dim: int, batch_norm: bool):
        super().__init__()
        self.features = features
        self.norm = BatchNorm(dim) if batch_norm else None

    def forward(self, batch: GraphBatch) -> Tensor:
        """Encodes every edge."""
        e = self.features(batch)
        return e if self.norm is None else self.norm(e)
