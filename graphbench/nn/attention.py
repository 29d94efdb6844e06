"""Attentions on plain tensors: ``attention(x, edge_index, batch)``.

Every class says which layer it is and names its usual arguments. All others of that layer are keyword arguments, too
(``Gradformer(64, heads=4, slope=0.1)``); equation, references and all arguments are in the layer's docstring.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from torch import Tensor

from graphbench import registry
from graphbench.errors import ArgumentError, check_one_of, unknown
from graphbench.layers.attention import ffgt, geco, gradformer, performer, sfi, sgformer, transformer
from graphbench.layers.contract import GlobalAttention
from graphbench.nn.exphormer import Exphormer
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
        options: options of :class:`graphbench.layers.attention.sfi.SFi`.
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
        **options: Any,
    ) -> None:
        own = {"dropout": dropout, "lam": lam, "alpha": alpha, "max_nodes": max_nodes}
        options.setdefault("lam_norm", "graph" if max_nodes is None else "dataset")
        super().__init__(*_layer(sfi.SFi, dim=channels, heads=heads, **own, **options))


class DFi(PlainAttention):
    """Dense attention of DFi-Former, the limit of :class:`SFi` without friction.

    Args:
        channels: channels of input and output, and of every head.
        heads: number of heads.
        dropout: probability of dropping an attention weight.
        options: options of :class:`graphbench.layers.attention.sfi.DFi`.
    """

    def __init__(self, channels: int, heads: int = 1, *, dropout: float = 0.0, **options: Any) -> None:
        super().__init__(*_layer(sfi.DFi, dim=channels, heads=heads, dropout=dropout, **options))


class SGFormer(PlainAttention):
    """Linear attention without softmax (https://arxiv.org/abs/2306.10759), per graph of the batch.

    Args:
        channels: channels of input and output, and of every head.
        heads: number of heads.
        combine: ``mean`` of the heads, or ``concat`` and a linear map.
        norm: ``frobenius``: one norm of Q and K per graph; ``l2``: one per row.
        self_loop: False leaves out a node's own value.
        options: options of :class:`graphbench.layers.attention.sgformer.SGFormer`.
    """

    def __init__(
        self,
        channels: int,
        heads: int = 1,
        *,
        combine: Literal["mean", "concat"] = "mean",
        norm: Literal["frobenius", "l2"] = "frobenius",
        self_loop: bool = True,
        **options: Any,
    ) -> None:
        own = {"combine": combine, "norm": norm, "self_loop": self_loop}
        super().__init__(*_layer(sgformer.SGFormer, dim=channels, heads=heads, **own, **options))


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
        options: options of :class:`graphbench.layers.attention.geco.GECO`.
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
        **options: Any,
    ) -> None:
        if heads != 1:
            raise ArgumentError("heads", f"GECO has no heads: heads must be 1, received {heads}")
        own = {"dropout": dropout, "order": order, "filter_width": filter_width, "permutation": permutation}
        super().__init__(*_layer(geco.GECO, dim=channels, **own, **options))


class Gradformer(PlainAttention):
    """Softmax attention whose scores decay with the distance of the pair (https://arxiv.org/abs/2404.15729).

    Args:
        channels: channels of input and output, divisible by ``heads``.
        heads: number of heads.
        dropout: probability of dropping an attention weight.
        decay: base of the exponential decay, 0 .. 1.
        start: distance from which it decays, learned per head from this value on.
        index: the distance: hops (``spd``) or lengths by Ollivier-Ricci curvature (``ricci``).
        options: options of :class:`graphbench.layers.attention.gradformer.Gradformer`.
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
        **options: Any,
    ) -> None:
        check_one_of(("spd", "ricci"), index=index)
        own = {"dropout": dropout, "decay": decay, "start": start, "index": index}
        super().__init__(*_layer(gradformer.Gradformer, dim=channels, heads=heads, **own, **options))


class _OverEdgeTypes(PlainAttention):
    """An attention that tells types of edges apart where it has ``num_edge_types``."""

    def _types(self, edge_attr: Tensor | None) -> Tensor | None:
        """Edge types (E, D) among the arguments of :meth:`forward`.

        Raises:
            ValueError: there are none, or nobody said how many there can be.
        """
        name, number = type(self).__name__, self.num_edge_types
        if number is None and edge_attr is not None:
            raise ValueError(f"{name} reads edge_attr where it has num_edge_types: {name}(..., num_edge_types=4)")
        if number is not None and number > 1 and edge_attr is None:
            raise ValueError(
                f"{name} has num_edge_types={number} and needs the type of every edge, received none: give edge_attr, "
                "of a block or GPSConv edge_types"
            )
        return edge_attr


class FFGT(_OverEdgeTypes):
    """Full-range heads beside focal ones that see some hops (https://arxiv.org/abs/2311.04653).

    Args:
        channels: channels of input and output, divisible by ``heads``.
        heads: number of heads.
        dropout: probability of dropping an attention weight.
        focal_heads: number of focal heads; default: half of them.
        focal_length: hops that these see.
        num_edge_types: the last type: ``edge_attr`` (E,), or its first column, has types 0 .. ``num_edge_types``, and
            with 1 is not read. None: there is no ``edge_attr``, edges are not told apart.
        options: options of :class:`graphbench.layers.attention.ffgt.FFGT`.
    """

    def __init__(
        self,
        channels: int,
        heads: int = 2,
        *,
        dropout: float = 0.0,
        focal_heads: int | None = None,
        focal_length: int = 1,
        num_edge_types: int | None = None,
        **options: Any,
    ) -> None:
        focal = math.ceil(heads / 2) if focal_heads is None else focal_heads
        own = {"focal_heads": focal, "focal_length": focal_length, "num_edge_types": num_edge_types or 1}
        options.setdefault("edge_bias", num_edge_types is not None)
        super().__init__(*_layer(ffgt.FFGT, dim=channels, heads=heads, dropout=dropout, **own, **options))
        self.num_edge_types = num_edge_types


class GRPE(_OverEdgeTypes):
    """Relative encodings of hops and edge types (https://arxiv.org/abs/2201.12787), with focal heads where asked for.

    Args:
        channels: channels of input and output, divisible by ``heads``.
        heads: number of heads.
        dropout: probability of dropping an attention weight.
        max_hop: hops that are told apart.
        focal_heads: number of heads that see ``focal_length`` hops only.
        focal_length: these hops.
        num_edge_types: the last type: ``edge_attr`` (E,), or its first column, has types 0 .. ``num_edge_types``, and
            with 1 is not read. None: there is no ``edge_attr``, edges are not told apart.
        options: options of :class:`graphbench.layers.attention.ffgt.GRPE`.
    """

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
        **options: Any,
    ) -> None:
        own = {"focal_heads": focal_heads, "focal_length": focal_length, "num_edge_types": num_edge_types or 1}
        known = {"dim": channels, "heads": heads, "dropout": dropout, "max_hop": max_hop}
        super().__init__(*_layer(ffgt.GRPE, **known, **own, **options))
        self.num_edge_types = num_edge_types


class Transformer(PlainAttention):
    """Softmax attention to all nodes of the graph: ``torch.nn.MultiheadAttention`` without padding.

    Args:
        channels: channels of input and output, divisible by ``heads``.
        heads: number of heads.
        dropout: probability of dropping an attention weight.
    """

    def __init__(self, channels: int, heads: int = 1, *, dropout: float = 0.0) -> None:
        super().__init__(*_layer(transformer.Transformer, dim=channels, heads=heads, dropout=dropout))


class Performer(PlainAttention):
    """Softmax attention approximated in linear time (https://arxiv.org/abs/2009.14794), per graph of the batch.

    Args:
        channels: channels of input and output.
        heads: number of heads.
        dropout: probability of dropping an entry of the output.
        head_channels: channels of a head.
        options: options of :class:`graphbench.layers.attention.performer.Performer`.
    """

    def __init__(
        self, channels: int, heads: int = 1, *, dropout: float = 0.0, head_channels: int = 64, **options: Any
    ) -> None:
        known = {"dim": channels, "heads": heads, "dropout": dropout, "dim_head": head_channels}
        super().__init__(*_layer(performer.Performer, **known, **options))


ATTENTIONS: dict[str, Callable[..., PlainAttention]] = {
    attention.__name__: attention
    for attention in (SFi, DFi, SGFormer, GECO, Gradformer, FFGT, GRPE, Transformer, Performer, Exphormer)
}
"""The attentions by name: ``ATTENTIONS["SFi"](channels, heads, **options)``."""


def attention_of(
    what: str,
    given: str | PlainAttention,
    channels: int,
    heads: int,
    options: Mapping[str, Any],
    also: Sequence[str] = (),
) -> PlainAttention:
    """An attention that is given, or named.

    Args:
        what: name of the argument, for messages.
        given: a name among :data:`ATTENTIONS`, or the attention.
        channels: channels of one that is named.
        heads: heads of one that is named.
        options: further arguments of one that is named.
        also: names that the caller knows besides, for messages.

    Raises:
        TypeError: neither a name nor an attention of this package, or options of one that is given.
        UserError: no attention has this name.
    """
    if isinstance(given, PlainAttention):
        if options:
            raise TypeError(f"{what} is an attention that has its arguments: {', '.join(options)} would change nothing")
        return given
    if not isinstance(given, str):
        raise TypeError(
            f"{what} must be a name or an attention of graphbench.nn, received {type(given).__name__}; of a layer that "
            "you have written graphbench.nn.PlainAttention makes one"
        )
    if given not in ATTENTIONS:
        raise unknown(what, given, [*ATTENTIONS, *also])
    return ATTENTIONS[given](channels, heads, **options)


def _layer(
    layer: type[GlobalAttention], **arguments: Any
) -> tuple[Callable[[], GlobalAttention], Mapping[str, Mapping[str, Any]], int]:
    """A layer's constructor with its arguments, what has to be computed about the graphs for it, and its channels.

    Raises:
        UserError: the layer has no argument of this name.
    """
    parameters = registry.parameters(layer)
    for name in arguments:
        if name not in parameters:
            raise unknown(f"argument of {layer.__name__}", name, parameters)
    defaults = {name: parameter.default for name, parameter in parameters.items()}
    transforms = layer.required_transforms({**defaults, **arguments})
    return partial(registry.construct, layer, arguments), transforms, arguments["dim"]
