"""PyTorch Geometric's GPSConv with attentions of this package as ``attn_type``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import GPSConv as PyGGPSConv

from graphbench.nn.attention import attention_of
from graphbench.nn.plain_layer import PlainAttention, check_states

_OF_PYG = ("multihead", "performer")


class GPSConv(PyGGPSConv):  # type: ignore[misc]
    """``torch_geometric.nn.GPSConv`` whose ``attn_type`` may be an attention of :mod:`graphbench.nn`.

    ``GPSConv(64, GINConv(...), heads=4, attn_type="SFi", attn_kwargs={"lam": 0.5})``. PyTorch Geometric's own types
    pad; ``performer`` among them lets padding reach the result, so that a graph's output depends on its batch-mates,
    and has another kernel (ReLU) than ``Performer``, which approximates softmax.

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
        attn_type: str | PlainAttention = "Transformer",
        attn_kwargs: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if attn_type in _OF_PYG:
            super().__init__(channels, conv, heads, attn_type=attn_type, attn_kwargs=attn_kwargs, **options)
            return
        super().__init__(channels, conv, heads, **options)
        self.attn_type = attn_type if isinstance(attn_type, str) else type(attn_type).__name__
        self.attn = attention_of("attn_type", attn_type, channels, heads, attn_kwargs or {}, _OF_PYG)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        *,
        edge_types: Tensor | None = None,
        **kwargs: Any,
    ) -> Tensor:
        """New node states (N, channels).

        Args:
            x: (N, channels) node states.
            edge_index: (2, E) source and target, numbered through the batch.
            batch: (N,) graph of every node, ascending; None: one graph.
            edge_types: (E, D) integer edge types, where the attention has ``num_edge_types`` (FFGT, GRPE).
            **kwargs: arguments of the message passing layer; ``edge_attr`` is also read by Exphormer with ``edge_dim``.

        Raises:
            ValueError: edges lack what the attention reads, or have types that it does not.
        """
        if self.attn_type in _OF_PYG:
            if edge_types is not None:
                raise ValueError(f"edge_types is for FFGT and GRPE with num_edge_types, received by {self.attn_type}")
            return super().forward(x, edge_index, batch, **kwargs)
        assert isinstance(self.attn, PlainAttention)
        check_states(x, self.channels)
        edges = self.attn._of_block(kwargs.get("edge_attr"), edge_types)
        terms = []
        if self.conv is not None:
            terms.append(self._with_residual(self.norm1, self.conv(x, edge_index, **kwargs), x, batch))
        terms.append(self._with_residual(self.norm2, self.attn(x, edge_index, batch, edge_attr=edges), x, batch))
        h = sum(terms[1:], terms[0])
        return self._normalized(self.norm3, h + self.mlp(h), batch)

    def _with_residual(self, norm: nn.Module | None, new: Tensor, x: Tensor, batch: Tensor | None) -> Tensor:
        dropped = torch.nn.functional.dropout(new, p=self.dropout, training=self.training)
        return self._normalized(norm, dropped + x, batch)

    def _normalized(self, norm: nn.Module | None, h: Tensor, batch: Tensor | None) -> Tensor:
        if norm is None:
            return h
        return norm(h, batch=batch) if self.norm_with_batch else norm(h)
