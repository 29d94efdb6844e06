"""Global attention and local message passing side by side, mixed at the end.

Wu et al., SGFormer: Simplifying and Empowering Transformers for Large-Graph Representations,
https://arxiv.org/abs/2306.10759. With SGFormer attention and GCN as local layer this is SGFormer; any registered
attention and local layer can take their places.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from graphbench.blockwise.forward import Blockwise
from graphbench.blockwise.model import BlockwiseModel
from graphbench.encoders.compose import EdgeEncoder, NodeEncoder, keep_sparse
from graphbench.errors import ArgumentError
from graphbench.heads.contract import Head
from graphbench.layers.activation import activation
from graphbench.layers.contract import GlobalAttention, LocalLayer
from graphbench.layers.dropout import Dropout
from graphbench.layers.input_linear import InputLinear, readable
from graphbench.layers.norm import BatchNorm
from graphbench.layers.sharing import tie_layers
from graphbench.models.contract import Model
from graphbench.registry import FromContext, register
from graphbench.structures import Features, GraphBatch
from graphbench.structures.node_blocks import HostRows, NodeBlocks


@register("TwoBranch")
class TwoBranch(Model, BlockwiseModel):
    r"""y = head( a LOCAL(X) + (1 - a) ATTENTION(X) ), X being the encoded nodes and a the ``graph_weight``.

    Args:
        encoder: module ``batch -> ((N, dim_encoded), batch')``.
        dim_encoded: its width; both branches read the same columns.
        edge_encoder: module ``batch -> (E, dim_edge)``, or None.
        dim: width of both branches (``gnn.dim_inner``).
        layers: attention layers (``gt.layers``).
        attention: makes one attention layer, ``(h, e, batch) -> h``; None leaves the branch out.
        local: makes one local layer from its widths, ``(h, e, batch) -> (h, e)``; None leaves the branch out.
        head: makes the head from the width of the mixture, ``(h, batch) -> prediction``.
        act: activation of both branches (``gnn.act``; ReLU in the paper).
        dropout: dropout of both branches where they have none of their own (``gnn.dropout``).
        graph_weight: a.
        aggregate: ``add`` mixes as above; ``cat`` puts [ATTENTION | LOCAL] side by side.
        attention_dropout: after the first map and after every layer.
        attention_norm: LayerNorm after the first map and after every layer.
        attention_act: activation after every layer too, not only after the first map.
        attention_residual: ``none``; ``mix``: alpha new + (1 - alpha) old; ``mean``: (new + old) / 2.
        alpha: weight of the new state in ``mix``.
        local_layers: depth of the local branch.
        local_dropout: after every local layer that has an activation.
        local_norm: BatchNorm in the local branch.
        local_stem: the local branch starts with a linear map of its own; see :class:`LocalBranch`.
        local_residual: add the output of that map after every layer.
        local_init: every local layer reads the output of that map as well.

    Shape:
        batch -> what the head returns

    Differences from the paper:
        None of substance: the released code has two models, both are here. Medium graphs: ``local_stem`` off and, as
        run for Cora, CiteSeer and PubMed, no norms and no attention residual. Large graphs: ``local_stem``,
        ``local_residual``, both norms, ``attention_residual: mean``. Norms that the released code owns but does not
        use are not created here.
    """

    def __init__(
        self,
        encoder: FromContext[NodeEncoder],
        dim_encoded: FromContext[int],
        edge_encoder: FromContext[EdgeEncoder | None],
        dim: FromContext[int],
        layers: FromContext[int],
        attention: FromContext[Callable[[], GlobalAttention] | None],
        local: FromContext[Callable[[int, int], LocalLayer] | None],
        head: FromContext[Callable[[int], Head]],
        *,
        act: FromContext[str] = "relu",
        dropout: FromContext[float] = 0.0,
        graph_weight: float = 0.8,
        aggregate: Literal["add", "cat"] = "add",
        attention_dropout: float | None = None,
        attention_norm: bool = False,
        attention_act: bool = False,
        attention_residual: Literal["none", "mix", "mean"] = "none",
        alpha: float = 0.5,
        local_layers: int = 2,
        local_dropout: float | None = None,
        local_norm: bool = False,
        local_stem: bool = False,
        local_residual: bool = False,
        local_init: bool = False,
    ):
        super().__init__()
        if attention is None and local is None:
            raise ArgumentError(
                ("local", "attention"), "a two-branch model needs a local layer, an attention or both, received neither"
            )
        if aggregate not in ("add", "cat"):
            raise ArgumentError("aggregate", f"aggregate must be add or cat, received '{aggregate}'")
        if not 0.0 <= graph_weight <= 1.0:
            raise ArgumentError("graph_weight", f"graph_weight must lie between 0 and 1, received {graph_weight}")
        self.encoder = keep_sparse(encoder)
        self.edge_encoder = edge_encoder
        self.attention_branch = self.local_branch = None
        if attention is not None:
            self.attention_branch = AttentionBranch(
                dim_encoded,
                dim,
                [attention() for _ in range(layers)],
                dropout=dropout if attention_dropout is None else attention_dropout,
                norm=attention_norm,
                act=act,
                act_every_layer=attention_act,
                residual=attention_residual,
                alpha=alpha,
            )
        if local is not None:
            self.local_branch = LocalBranch(
                dim_encoded,
                dim,
                local,
                local_layers,
                dropout=dropout if local_dropout is None else local_dropout,
                norm=local_norm,
                act=act,
                stem=local_stem,
                residual=local_residual,
                init=local_init,
            )
        both = attention is not None and local is not None
        self.graph_weight = graph_weight
        self.aggregate = aggregate
        self.head = head(2 * dim if both and aggregate == "cat" else dim)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Predicts from a batch."""
        e = None if self.edge_encoder is None else self.edge_encoder(batch)
        x, batch = self.encoder(batch)
        return self.head(self.mix(x, e, batch), batch)

    def forward_blockwise(self, graph: NodeBlocks) -> Tensor:
        """The predictions of :meth:`forward` with bounded memory; see :class:`.BlockwiseModel`."""
        blocks = Blockwise(graph, self)
        e = None if self.edge_encoder is None else blocks.edges(self.edge_encoder)
        x = blocks.nodes(self.encoder)
        states = [branch.forward_blockwise(x, e, blocks) for branch in self._branches()]
        return blocks.rows(self._predict, *states, part=self.head).tensor

    def mix(self, x: Features, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """The hidden state that the head reads: (N, dim), or (N, 2 dim) side by side."""
        return self._mixed([branch(x, e, batch) for branch in self._branches()])

    def _branches(self) -> list[AttentionBranch | LocalBranch]:
        return [each for each in (self.local_branch, self.attention_branch) if each is not None]

    def _predict(self, *states: Tensor, batch: GraphBatch) -> Tensor:
        return self.head(self._mixed(list(states)), batch)

    def _mixed(self, states: list[Tensor]) -> Tensor:
        """The hidden state that the head reads, from the states of the branches."""
        if len(states) == 1:
            return states[0]
        h_local, h_attention = states
        if self.aggregate == "cat":
            return torch.cat([h_attention, h_local], dim=1)
        return _between(h_attention, h_local, self.graph_weight)


class AttentionBranch(nn.Module):
    r"""Z_0 = drop(act(norm(W X)));  Z_l = drop([act] norm(residual(attention_l(Z_{l-1}), Z_{l-1}))).

    Args:
        dim_in: width of the input.
        dim: width of the branch.
        layers: attention layers.
        dropout: probability.
        norm: LayerNorm.
        act: name of the activation.
        act_every_layer: whether it also follows every attention layer.
        residual: ``none``, ``mix`` or ``mean``.
        alpha: weight of the new state in ``mix``.

    Shape:
        (N, dim_in) -> (N, dim)
    """

    def __init__(
        self,
        dim_in: int,
        dim: int,
        layers: list[nn.Module],
        *,
        dropout: float,
        norm: bool,
        act: str,
        act_every_layer: bool,
        residual: str,
        alpha: float,
    ):
        super().__init__()
        if residual not in ("none", "mix", "mean"):
            raise ArgumentError(
                "attention_residual", f"attention_residual must be none, mix or mean, received '{residual}'"
            )
        if not 0.0 <= alpha <= 1.0:
            raise ArgumentError("alpha", f"alpha must lie between 0 and 1, received {alpha}")
        self.lin_in = InputLinear(dim_in, dim)
        self.layers = nn.ModuleList(layers)
        tie_layers(self.layers)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) if norm else nn.Identity() for _ in range(len(layers) + 1))
        self.act = activation(act)
        self.act_every_layer = act_every_layer
        self.dropout = Dropout(dropout)
        self.new_share = {"none": None, "mix": alpha, "mean": 0.5}[residual]

    def forward(self, x: Features, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """Attends ``len(layers)`` times."""
        z = self._enter(x)
        for i, attention in enumerate(self.layers):
            z = self._finish(attention(z, e, batch), z, i=i)
        return z

    def forward_blockwise(self, x: HostRows, e: HostRows | None, blocks: Blockwise) -> HostRows:
        """The same for one graph in blocks; see :meth:`TwoBranch.forward_blockwise`."""
        z = blocks.rows(self._enter, x)
        for i, attention in enumerate(self.layers):
            z = blocks.attend(attention, z, then=partial(self._finish, i=i), e=e)
        return z

    def _enter(self, x: Features, batch: GraphBatch | None = None) -> Tensor:
        return self.dropout(self.act(self.norms[0](self.lin_in(x))))

    def _finish(self, new: Tensor, z: Tensor, i: int) -> Tensor:
        if self.new_share is not None:
            new = _between(z, new, self.new_share)
        new = self.norms[i + 1](new)
        return self.dropout(self.act(new) if self.act_every_layer else new)


class LocalBranch(nn.Module):
    r"""A stack of local layers, in one of the two forms of the released code.

    Without stem (medium graphs), on the raw input; the last layer has nothing after it:
        H_0 = X;  H_l = drop(act(norm(local_l(H_{l-1}))));  H_L = local_L(H_{L-1})
    With stem (large graphs), every layer alike:
        H_0 = drop(act(norm(W X)));  H_l = drop(act(norm(local_l(H_{l-1}) [+ W_l H_0]))) [+ H_0]

    Args:
        dim_in: width of the input.
        dim: width of the branch.
        local: makes a local layer from its widths.
        layers: number of local layers, 1 or more.
        dropout: probability.
        norm: BatchNorm.
        act: name of the activation.
        stem: which of the two forms.
        residual: the term ``+ H_0``, an *initial* residual.
        init: the term ``+ W_l H_0``. The released code writes it as one map of [A H | H_0], with the same parameters;
            ours are two maps, initialised each by its own width.

    Shape:
        (N, dim_in) -> (N, dim)
    """

    def __init__(
        self,
        dim_in: int,
        dim: int,
        local: Callable[[int, int], nn.Module],
        layers: int,
        *,
        dropout: float,
        norm: bool,
        act: str,
        stem: bool,
        residual: bool,
        init: bool,
    ):
        super().__init__()
        if layers < 1:
            raise ArgumentError("local_layers", f"local_layers must be 1 or more, received {layers}")
        if (residual or init) and not stem:
            raise ArgumentError(
                ("local_residual", "local_init", "local_stem"),
                "local_residual and local_init add the output of the stem; set local_stem to true",
            )
        self.lin_in = InputLinear(dim_in, dim) if stem else None
        self.layers = nn.ModuleList(local(dim_in if i == 0 and not stem else dim, dim) for i in range(layers))
        self.init_maps = nn.ModuleList(nn.Linear(dim, dim, bias=False) for _ in range(layers if init else 0))
        norms = layers + 1 if stem else layers - 1
        self.norms = nn.ModuleList(BatchNorm(dim) if norm else nn.Identity() for _ in range(norms))
        self.act = activation(act)
        self.dropout = Dropout(dropout)
        self.residual = residual

    def forward(self, x: Features, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """Passes messages ``len(layers)`` times."""
        h = x if self.lin_in is None else self._enter(x)
        first = () if self.lin_in is None else (h,)
        for i, layer in enumerate(self.layers):
            new, e = layer(readable(h, layer), e, batch)
            h = self._finish(new, *first, i=i)
        return h

    def forward_blockwise(self, x: HostRows, e: HostRows | None, blocks: Blockwise) -> HostRows:
        """The same for one graph in blocks; see :meth:`TwoBranch.forward_blockwise`."""
        h = x if self.lin_in is None else blocks.rows(self._enter, x)
        first = () if self.lin_in is None else (h,)
        for i, layer in enumerate(self.layers):
            h, e = blocks.messages(layer, h, e, *first, then=partial(self._finish, i=i))
        return h

    def _enter(self, x: Features, batch: GraphBatch | None = None) -> Tensor:
        return self.dropout(self.act(self.norms[0](self.lin_in(x))))

    def _finish(self, new: Tensor, first: Tensor | None = None, *, i: int) -> Tensor:
        """What follows layer i; ``first`` is the output of the stem, where there is one."""
        if first is None:
            last = i == len(self.layers) - 1
            return new if last else self.dropout(self.act(self.norms[i](new)))
        if self.init_maps:
            new = new + self.init_maps[i](first)
        new = self.dropout(self.act(self.norms[i + 1](new)))
        return new + first if self.residual else new


def _between(start: Tensor, end: Tensor, share: float) -> Tensor:
    """(1 - share) start + share end, in the wider of their types (autocast leaves one in half precision)."""
    wide = torch.promote_types(start.dtype, end.dtype)
    return torch.lerp(start.to(wide), end.to(wide), share)
