"""Base classes of local layers, attentions and complete blocks, and the context that the model offers them.

A model is a stack of blocks. A block of ``gt.layer_type: GCN+SFi`` holds sublayers, here a local layer and an
attention, that read the same state; a name of ``layers/blocks`` is a complete block. All take ``(h, e, batch)``:
node states h (N, dim), edge states e (E, dim_edge) or None, and the :class:`~graphbench.structures.GraphBatch`.

Rules for every layer, checked by :func:`graphbench.testing.check_layer`: no padding, no wait for the device (reading
a value, boolean indexing), nothing written onto the batch, outputs of a graph independent of its batch-mates.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from graphbench.contract import Capturable, broken, covers_forward, versions, written_to
from graphbench.registry import UNSET
from graphbench.structures import Features, GraphBatch


@dataclass(frozen=True)
class LayerContext:
    """Values that the model offers to its layers; a parameter ``name: FromContext[...]`` reads the field ``name``.

    Attributes:
        dim: width of the node states.
        dim_in: input width (``dim``, but for the first layer of some models).
        dim_out: output width.
        dim_edge: width of the edge states.
        heads: attention heads (``gt.n_heads``, ``graphormer.num_heads``).
        dropout: ``gt.attn_dropout`` for attentions, ``gt.dropout`` for local layers and blocks, ``gnn.dropout`` and
            ``graphormer.dropout`` in the models of those groups.
        attn_dropout: ``gt.attn_dropout`` (``graphormer.attention_dropout``).
        hidden_dropout: ``gt.dropout``.
        mlp_dropout: ``graphormer.mlp_dropout``.
        act: activation (``gnn.act``).
        hidden_act: activation of feed-forward networks in layers whose own key ``act`` is another.
        norm: ``batch``, ``layer``, ``node``, ``graph`` or ``none`` (``gt.*_norm``, ``gnn.batchnorm``).
        batchnorm: ``gnn.batchnorm``.
        residual: ``gt.residual`` or ``gnn.residual``.
        max_nodes: nodes of the largest training graph, None where unknown.
        degrees: histogram of in-degrees (``gt.pna_degrees`` or measured), None where unknown.
        use_edge_attr: whether the pairs that the layer works on have attributes.
        equivstable: whether an encoder asks local layers to gate messages by its ``state.stable_encoding``.
        full_graph: ``gt.full_graph``.
        gamma: ``gt.gamma``.
        ffn: ``gnn.ffn``.
        agg: ``gnn.agg``.
        normalize_adj: ``gnn.normalize_adj``.
        self_msg: ``gnn.self_msg``.
        msg_direction: ``gnn.msg_direction``.
        edge_residual: residual of edge states, chosen by ``compat``.
        mlp: form of GINE's network, chosen by ``compat``.
        dropout_inside: position of gineconv's dropout, chosen by ``compat``.
        fixed: fields that no key of a layer's section changes.
    """

    fixed: ClassVar[tuple[str, ...]] = ("dim", "dim_in", "dim_out")

    dim: int = UNSET
    dim_in: int = UNSET
    dim_out: int = UNSET
    dim_edge: int = UNSET
    heads: int = UNSET
    dropout: float = UNSET
    attn_dropout: float = UNSET
    hidden_dropout: float = UNSET
    mlp_dropout: float = UNSET
    act: str = UNSET
    hidden_act: str = UNSET
    norm: str = UNSET
    batchnorm: bool = UNSET
    residual: bool = UNSET
    max_nodes: int | None = UNSET
    degrees: Sequence[int] | None = UNSET
    use_edge_attr: bool = UNSET
    equivstable: bool = UNSET
    full_graph: bool = UNSET
    gamma: float = UNSET
    ffn: bool = UNSET
    agg: str = UNSET
    normalize_adj: bool = UNSET
    self_msg: str = UNSET
    msg_direction: str = UNSET
    edge_residual: bool = UNSET
    mlp: str = UNSET
    dropout_inside: bool = UNSET


class GraphLayer(nn.Module, Capturable):
    """Base of everything that ``gt.layer_type`` or ``gnn.layer_type`` can name.

    Attributes:
        registered_name: set by :func:`~graphbench.registry.register`.
        needs_edges: reads edge states and cannot do without.
        reads_sparse: begins with an :class:`~graphbench.layers.input_linear.InputLinear`, so that the first layer may
            be handed sparse features.
        permutation_equivariant: False where outputs depend on the order of the nodes.
        compile_obstacle: why ``torch.compile`` cannot make one graph of it for all batches; None where it can.
        dim_edge_out: channels of new edge states that it hands on; None: the next layer is given those it was given.
    """

    registered_name: ClassVar[str] = ""
    needs_edges: ClassVar[bool] = False
    reads_sparse: ClassVar[bool] = False
    permutation_equivariant: ClassVar[bool] = True
    compile_obstacle: ClassVar[str | None] = None
    dim_edge_out: int | None = None

    @classmethod
    def required_transforms(cls, arguments: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """Transforms that must have been applied to the graphs: ``{name: {argument: value}}``.

        Args:
            arguments: the layer's arguments by name, defaults included.
        """
        return {}

    @abstractmethod
    def step(self, h: Features, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """:meth:`forward` with one return type for all layers: node states, edge states, batch for the next layer."""

    def _forwarded(self, h: Features, e: Tensor | None, batch: GraphBatch) -> Any:
        """Result of :meth:`forward`.

        Raises:
            ContractError: it wrote onto its input, which the sublayers beside it and the residual read, too.
        """
        before = versions(h, e)
        result = self(h, e, batch)
        if versions(h, e) != before:
            raise written_to(type(self).forward, "the states that it is given")
        return result


class LocalLayer(GraphLayer):
    """Message passing along edges: ``forward(h, e, batch) -> (h', e')``.

    Attributes:
        has_residual: the layer adds its input itself; a block then adds no residual and no dropout.
    """

    has_residual: bool = False

    @abstractmethod
    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """New node states (N, dim_out) and edge states (E, dim_out), or ``e`` as it came.

        Raises:
            ValueError: ``needs_edges`` and ``e`` is None.
        """

    def step(self, h: Features, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node and edge states; the batch as it came.

        Raises:
            ContractError: :meth:`forward` returned something else.
        """
        result = self._forwarded(h, e, batch)
        if not (isinstance(result, tuple) and len(result) == 2 and _is_state(result[0], h)):
            expected = (
                f"(node states ({h.shape[0]}, dim_out), edge states), e as it came where edges have none of their own"
            )
            raise broken(type(self).forward, expected, result)
        return *result, batch


class Attention(GraphLayer):
    """Base of the namespace ``layers/attention``: :class:`GlobalAttention` or :class:`StatefulAttention`.

    Attributes:
        reads_edge_states: False where nothing depends on ``e``: a GPU may compute it beside the local layers. That is
            said of the ``forward`` of this class, not of one that a subclass writes anew.
    """

    reads_edge_states: ClassVar[bool] = True

    def may_read_edge_states(self) -> bool:
        """Whether nobody has promised of its ``forward`` that it does not."""
        return self.reads_edge_states or not covers_forward(type(self), "reads_edge_states")

    @abstractmethod
    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Any:
        """See the two base classes."""


class GlobalAttention(Attention):
    """Attention, or any other global module: ``forward(h, e, batch) -> h'``; edge states are not changed."""

    @abstractmethod
    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """New node states (N, dim), without residual."""

    def step(self, h: Features, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node states; edge states and batch as they came.

        Raises:
            ContractError: :meth:`forward` returned something else.
        """
        result = self._forwarded(h, e, batch)
        if not (_is_state(result, h) and result.shape[1] == h.shape[1]):
            raise broken(type(self).forward, f"node states {tuple(h.shape)}", result)
        return result, e, batch


class StatefulAttention(Attention):
    """An attention that passes state on to the next block: ``forward(h, e, batch) -> (h', batch')``."""

    @abstractmethod
    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, GraphBatch]:
        """New node states (N, dim), and the batch with a new ``state``."""

    def step(self, h: Features, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node states and batch; edge states as they came.

        Raises:
            ContractError: :meth:`forward` returned something else.
        """
        result = self._forwarded(h, e, batch)
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], GraphBatch)):
            raise broken(type(self).forward, f"(node states {tuple(h.shape)}, batch)", result)
        if not (_is_state(result[0], h) and result[0].shape[1] == h.shape[1]):
            raise broken(type(self).forward, f"node states {tuple(h.shape)} first", result[0])
        return result[0], e, result[1]


class Block(GraphLayer):
    """A complete layer with residuals, norms and feed-forward network: ``forward(h, e, batch) -> (h', e', batch')``."""

    @abstractmethod
    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node and edge states, and the batch for the next block."""

    def step(self, h: Features, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node and edge states, and the batch for the next block: the block's checked output.

        Raises:
            ContractError: :meth:`forward` returned something else.
        """
        result: tuple[Tensor, Tensor | None, GraphBatch] = self._forwarded(h, e, batch)
        is_triple = isinstance(result, tuple) and len(result) == 3
        if not (is_triple and _is_state(result[0], h) and isinstance(result[2], GraphBatch)):
            raise broken(type(self).forward, f"(node states ({h.shape[0]}, dim), edge states, batch)", result)
        return result


def _is_state(states: Any, h: Features) -> bool:
    """Whether they can be node states: a sum with ``h`` would repeat one row, or become float64, without a word."""
    if not isinstance(states, Tensor) or states.dim() != 2 or states.shape[0] != h.shape[0]:
        return False
    given = h.dtype if isinstance(h, Tensor) else h.value.dtype
    return states.is_floating_point() and (states.dtype != torch.float64 or given == torch.float64)


class ChannelwiseAttention(GlobalAttention):
    """A global module that reads neighbours along edges, then mixes all nodes channel by channel: a convolution.

    For a batch of one graph of n nodes in evaluation, ``forward(h, None, batch)[:, c]`` is ``mix_channels(near_rows(h,
    batch), taps, c, n)``, the rows of ``taps`` those of ``tap_rows``. Memory is that of some channels of all nodes.

    Attributes:
        channels: channels of the result.
    """

    channels: int

    @abstractmethod
    def near_rows(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """(N, P) what every node makes of itself and its neighbours."""

    @abstractmethod
    def tap_rows(self, position: Tensor, nodes: int) -> Tensor:
        """(B, T) what belongs to some positions (B,) int64 in a graph of so many nodes."""

    @abstractmethod
    def mix_channels(self, near: Tensor, taps: Tensor, channels: slice, device: torch.device) -> Tensor:
        """(n, C) of the result on the device, from all rows of one graph, (n, P) and (n, T) on the host."""


class BlockwiseAttention(GlobalAttention):
    """An attention that reads other nodes through sums and along edges, so that it can be evaluated block by block.

    ``apply_summary(h_b, sum over blocks c of reduce_nodes(h_c), along_b)`` are the rows b of
    ``forward(h, None, batch)`` for a batch of one graph in evaluation; ``along_b`` are those of
    ``along_edges(h, batch)``.

    Attributes:
        in_sums: False where arguments of an instance ask for more than sums.
        reads_edges: it has a term along edges.
    """

    in_sums: bool = True
    reads_edges: bool = False

    @abstractmethod
    def reduce_nodes(self, h: Tensor) -> Any:
        """Sums over some rows of the graph; two of them can be added with ``+``."""

    def along_edges(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """(N, ...) what reaches every node along its incoming edges; asked for with ``reads_edges`` only."""
        raise NotImplementedError

    @abstractmethod
    def apply_summary(self, h: Tensor, summary: Any, along: Tensor | None = None) -> Tensor:
        """New states of some rows, from the sums over all rows and what reaches these rows along edges."""
