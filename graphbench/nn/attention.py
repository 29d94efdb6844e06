"""Attentions on plain tensors: ``attention(x, edge_index, batch)``.

Every class says which layer it is; equation, references and further arguments are in that layer's docstring.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal

from graphbench.errors import ArgumentError, check_one_of
from graphbench.layers.attention import ffgt, geco, gradformer, performer, sfi, sgformer, transformer
from graphbench.layers.attention.ffgt.settings import FocalSettings
from graphbench.nn.graphs import hashable
from graphbench.nn.plain_layer import PlainAttention


class SFi(PlainAttention):
    """Sparse-flow attention of SFi-Former (https://arxiv.org/abs/2504.20666).

    Args:
        channels: channels of input and output, and of every head.
        heads: number of heads.
        dropout: probability of dropping an entry of the flow.
        lam: strength of the friction that makes flows exactly zero; 0: none.
        alpha: weight of the condition that a row sums to 1; ``inf``: exactly.
        max_nodes: divides ``lam``: nodes of the largest training graph; None: of the graph itself.
    """

    def __init__(
        self,
        channels: int,
        heads: int = 1,
        *,
        dropout: float = 0.0,
        lam: float = 1.0,
        alpha: float = 0.1,
        max_nodes: int | None = None,
    ) -> None:
        lam_norm: Literal["graph", "dataset"] = "graph" if max_nodes is None else "dataset"
        options: dict[str, Any] = {
            "dropout": dropout,
            "lam": lam,
            "alpha": alpha,
            "max_nodes": max_nodes,
            "lam_norm": lam_norm,
        }
        super().__init__(partial(sfi.SFi, channels, heads, **options))


class DFi(PlainAttention):
    """Dense attention of DFi-Former, the limit of :class:`SFi` without friction.

    Args:
        channels: channels of input and output, and of every head.
        heads: number of heads.
        dropout: probability of dropping an attention weight.
    """

    def __init__(self, channels: int, heads: int = 1, *, dropout: float = 0.0) -> None:
        super().__init__(partial(sfi.DFi, channels, heads, dropout=dropout))


class SGFormer(PlainAttention):
    """Linear attention without softmax (https://arxiv.org/abs/2306.10759), per graph of the batch.

    Args:
        channels: channels of input and output, and of every head.
        heads: number of heads.
        combine: ``mean`` of the heads, or ``concat`` and a linear map.
        norm: ``frobenius``: one norm of Q and K per graph; ``l2``: one per row.
        self_loop: False leaves out a node's own value.
    """

    def __init__(
        self,
        channels: int,
        heads: int = 1,
        *,
        combine: Literal["mean", "concat"] = "mean",
        norm: Literal["frobenius", "l2"] = "frobenius",
        self_loop: bool = True,
    ) -> None:
        options: dict[str, Any] = {"combine": combine, "norm": norm, "self_loop": self_loop}
        super().__init__(partial(sgformer.SGFormer, channels, heads, **options))


class GECO(PlainAttention):
    """Gated circular convolutions as long as the graph, in O(N log N + E) (https://arxiv.org/abs/2406.12059).

    Its output depends on the order of the nodes, unless it is averaged over orders (``permutation``).

    Args:
        channels: channels of input and output.
        heads: must be 1; here so that all attentions are constructed in the same way.
        dropout: probability of dropping an entry of the input of a convolution.
        order: number of convolutions.
        filter_width: hidden channels of the networks that make the filters.
        permutation: ``natural``, ``static`` (one random order per size) or ``dynamic`` (a new one in every step).
    """

    def __init__(
        self,
        channels: int,
        heads: int = 1,
        *,
        dropout: float = 0.0,
        order: int = 2,
        filter_width: int = 64,
        permutation: Literal["natural", "static", "dynamic"] = "natural",
    ) -> None:
        if heads != 1:
            raise ArgumentError("heads", f"GECO has no heads: heads must be 1, received {heads}")
        options: dict[str, Any] = {
            "dropout": dropout,
            "order": order,
            "filter_width": filter_width,
            "permutation": permutation,
        }
        super().__init__(partial(geco.GECO, channels, **options))


class Gradformer(PlainAttention):
    """Softmax attention whose scores decay with the distance of the pair (https://arxiv.org/abs/2404.15729).

    Args:
        channels: channels of input and output, divisible by ``heads``.
        heads: number of heads.
        dropout: probability of dropping an attention weight.
        decay: base of the exponential decay, 0 .. 1.
        start: distance from which it decays, learned per head from this value on.
        index: the distance: hops (``spd``) or lengths by Ollivier-Ricci curvature (``ricci``).
    """

    def __init__(
        self,
        channels: int,
        heads: int = 1,
        *,
        dropout: float = 0.0,
        decay: float = 0.6,
        start: float = 5.0,
        index: Literal["spd", "ricci"] = "spd",
    ) -> None:
        check_one_of(("spd", "ricci"), index=index)
        options: dict[str, Any] = {"dropout": dropout, "decay": decay, "start": start, "index": index}
        transforms = hashable(gradformer.Gradformer.required_transforms(options))
        super().__init__(partial(gradformer.Gradformer, channels, heads, **options), transforms)


class FFGT(PlainAttention):
    """Full-range heads beside focal ones that see some hops (https://arxiv.org/abs/2311.04653).

    Args:
        channels: channels of input and output, divisible by ``heads``.
        heads: number of heads.
        dropout: probability of dropping an attention weight.
        focal_heads: number of focal heads; default: half of them.
        focal_length: hops that these see.
        num_edge_types: types of edges in the first column of ``edge_attr``; None: edges are not told apart.
    """

    reads_edge_types: ClassVar[bool] = True

    def __init__(
        self,
        channels: int,
        heads: int = 2,
        *,
        dropout: float = 0.0,
        focal_heads: int | None = None,
        focal_length: int = 1,
        num_edge_types: int | None = None,
    ) -> None:
        focal = _focal(heads, focal_heads, focal_length, num_edge_types)
        options: dict[str, Any] = {"focal": focal, "edge_bias": num_edge_types is not None, "dropout": dropout}
        super().__init__(partial(ffgt.FFGT, channels, heads, **options), _HOPS)


class GRPE(PlainAttention):
    """Relative encodings of hops and edge types (https://arxiv.org/abs/2201.12787), with focal heads where asked for.

    Args:
        channels: channels of input and output, divisible by ``heads``.
        heads: number of heads.
        dropout: probability of dropping an attention weight.
        max_hop: hops that are told apart.
        focal_heads: number of heads that see ``focal_length`` hops only.
        focal_length: these hops.
        num_edge_types: types of edges in the first column of ``edge_attr``; None: edges are not told apart.
    """

    reads_edge_types: ClassVar[bool] = True

    def __init__(
        self,
        channels: int,
        heads: int = 1,
        *,
        dropout: float = 0.0,
        max_hop: int = 5,
        focal_heads: int = 0,
        focal_length: int = 1,
        num_edge_types: int | None = None,
    ) -> None:
        focal = _focal(heads, focal_heads, focal_length, num_edge_types)
        super().__init__(partial(ffgt.GRPE, channels, heads, max_hop=max_hop, focal=focal, dropout=dropout), _HOPS)


class Transformer(PlainAttention):
    """Softmax attention to all nodes of the graph: ``torch.nn.MultiheadAttention`` without padding.

    Args:
        channels: channels of input and output, divisible by ``heads``.
        heads: number of heads.
        dropout: probability of dropping an attention weight.
    """

    def __init__(self, channels: int, heads: int = 1, *, dropout: float = 0.0) -> None:
        super().__init__(partial(transformer.Transformer, channels, heads, dropout=dropout))


class Performer(PlainAttention):
    """Softmax attention approximated in linear time (https://arxiv.org/abs/2009.14794), per graph of the batch.

    Args:
        channels: channels of input and output.
        heads: number of heads.
        dropout: probability of dropping an entry of the output.
        head_channels: channels of a head.
    """

    def __init__(self, channels: int, heads: int = 1, *, dropout: float = 0.0, head_channels: int = 64) -> None:
        super().__init__(partial(performer.Performer, channels, heads, dropout=dropout, dim_head=head_channels))


ATTENTIONS: dict[str, Callable[..., PlainAttention]] = {
    attention.__name__: attention
    for attention in (SFi, DFi, SGFormer, GECO, Gradformer, FFGT, GRPE, Transformer, Performer)
}
"""The classes of this module by name: ``ATTENTIONS["SFi"](channels, heads, **options)``."""

_HOPS = hashable({"ShortestPaths": {}})


def _focal(heads: int, focal_heads: int | None, length: int, edge_types: int | None) -> FocalSettings:
    number = math.ceil(heads / 2) if focal_heads is None else focal_heads
    return FocalSettings(focal_heads=number, focal_length=length, num_edge_types=edge_types or 1)
