"""PyTorch Geometric's GPSConv with attentions of this package as ``attn_type``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import GPSConv as PyGGPSConv

from graphbench.errors import unknown
from graphbench.nn.attention import ATTENTIONS
from graphbench.nn.exphormer import Exphormer
from graphbench.nn.plain_layer import PlainAttention

_OF_PYG = ("multihead", "performer")


class GPSConv(PyGGPSConv):  # type: ignore[misc]
    """``torch_geometric.nn.GPSConv`` whose ``attn_type`` may be an attention of :mod:`graphbench.nn`.

    ``GPSConv(64, GINConv(...), heads=4, attn_type="SFi", attn_kwargs={"lam": 0.5})``. PyTorch Geometric's own types
    pad; ``performer`` among them lets padding reach the result, so that a graph's output depends on its batch-mates.

    Args:
        channels: channels of input and output.
        conv: a message passing layer of PyTorch Geometric, or None.
        heads: attention heads.
        attn_type: a class name of :mod:`graphbench.nn`, ``multihead``, ``performer``, or an attention.
        attn_kwargs: further arguments of the attention.
        **options: options of ``torch_geometric.nn.GPSConv`` (dropout, act, norm, ...).
    """

    def __init__(
        self,
        channels: int,
        conv: nn.Module | None,
        heads: int = 1,
        *,
        attn_type: str | PlainAttention | Exphormer = "Transformer",
        attn_kwargs: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if attn_type in _OF_PYG:
            super().__init__(channels, conv, heads, attn_type=attn_type, attn_kwargs=attn_kwargs, **options)
            return
        super().__init__(channels, conv, heads, **options)
        self.attn_type = attn_type if isinstance(attn_type, str) else type(attn_type).__name__
        self.attn = _attention(channels, heads, attn_type, attn_kwargs or {})

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None, **kwargs: Any) -> Tensor:
        """New node states (N, channels); ``kwargs`` go to the message passing layer."""
        if self.attn_type in _OF_PYG:
            return super().forward(x, edge_index, batch, **kwargs)
        terms = []
        if self.conv is not None:
            terms.append(self._with_residual(self.norm1, self.conv(x, edge_index, **kwargs), x, batch))
        terms.append(self._with_residual(self.norm2, self.attn(x, edge_index, batch), x, batch))
        h = sum(terms[1:], terms[0])
        return self._normalized(self.norm3, h + self.mlp(h), batch)

    def _with_residual(self, norm: nn.Module | None, new: Tensor, x: Tensor, batch: Tensor | None) -> Tensor:
        dropped = torch.nn.functional.dropout(new, p=self.dropout, training=self.training)
        return self._normalized(norm, dropped + x, batch)

    def _normalized(self, norm: nn.Module | None, h: Tensor, batch: Tensor | None) -> Tensor:
        if norm is None:
            return h
        return norm(h, batch=batch) if self.norm_with_batch else norm(h)


def _attention(channels: int, heads: int, attn_type: Any, options: dict[str, Any]) -> nn.Module:
    if isinstance(attn_type, (PlainAttention, Exphormer)):
        return attn_type
    classes: dict[str, Callable[..., nn.Module]] = {**ATTENTIONS, "Exphormer": Exphormer}
    if attn_type not in classes:
        raise unknown("attn_type", str(attn_type), [*classes, *_OF_PYG])
    return classes[attn_type](channels, heads, **options)
