"""CRaWl: one-dimensional convolutions along random walks (https://arxiv.org/abs/2102.08786)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphbench.errors import ArgumentError, check_at_least
from graphbench.layers.dropout import Dropout
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import BatchNorm, NormedSequential
from graphbench.models.contract import EdgeFrame, EncodedModel
from graphbench.models.random_walks import Walks, along, draw_walks, fixed_walks
from graphbench.ops.propagate import mean_at_target
from graphbench.ops.segment import segment_repeat, segment_sum
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch, as_dense
from graphbench.structures.adjacency import Adjacency, adjacency


@dataclass(frozen=True)
class WalkSettings:
    """Walks and what is read along them; every field is a key of the model.

    Attributes:
        width: channels of the layers; None: those of encoded nodes.
        steps: steps of a walk in training.
        eval_steps: steps of a walk in evaluation.
        start_ratio: walks in training relative to nodes; 1: one from every node, as in evaluation.
        window: s, steps back at which identities and edges are known.
        kernel: nodes that a convolution sees.
        virtual_node: a node per graph that hears all others and speaks to all, between layers.
    """

    width: int | None = None
    steps: int = 50
    eval_steps: int = 50
    start_ratio: float = 1.0
    window: int = 8
    kernel: int = 9
    virtual_node: bool = True

    def check(self) -> None:
        """Refuses what no model can have.

        Raises:
            ArgumentError: walks shorter than a convolution, no window, or no walks.
        """
        check_at_least(1, window=self.window, kernel=self.kernel, width=1 if self.width is None else self.width)
        for name in ("steps", "eval_steps"):
            if getattr(self, name) + 1 < self.kernel:
                raise ArgumentError(
                    (name, "kernel"),
                    f"a walk of {name} {getattr(self, name)} is shorter than a convolution over {self.kernel} nodes",
                )
        if not 0 < self.start_ratio <= 1:
            raise ArgumentError("start_ratio", f"start_ratio must lie in (0, 1], received {self.start_ratio}")


class WalkLayer(nn.Module):
    """Node states from a convolution along all walks.

    Equations, w a walk, X_w the rows [h_{w_i} | e_{w_i-1 w_i} | identities and edges], e = 0 at i = 0::

        Y_w = relu(W_2 relu(BN(D * (W_1 X_w))))        D: a kernel of its own for every channel, without padding
        h_v <- R h_v + W_4 relu(BN(W_3 mean of the Y_w,i whose middle is v))      R: the identity if widths agree

    Args:
        dim_in: channels of h.
        dim: channels of the result.
        dim_known: channels of the rest of X.
        kernel: nodes of a convolution.

    Shape:
        h (N, dim_in), known (W, L, dim_known) -> (N, dim)
    """

    def __init__(self, dim_in: int, dim: int, dim_known: int, kernel: int) -> None:
        super().__init__()
        self.lin_in = nn.Linear(dim_in + dim_known, dim, bias=False)
        self.conv = nn.Conv1d(dim, dim, kernel, groups=dim, bias=False)
        self.norm = BatchNorm(dim)
        self.lin_out = nn.Linear(dim, dim, bias=False)
        self.mlp = NormedSequential(
            nn.Linear(dim, 2 * dim, bias=False), BatchNorm(2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim, bias=False)
        )
        self.rescale = nn.Linear(dim_in, dim, bias=False) if dim_in != dim else None

    def forward(self, h: Tensor, known: Tensor, walks: Walks, middles: Adjacency, batch: GraphBatch) -> Tensor:
        """(N, dim) new states."""
        seen = h.index_select(0, walks.nodes.flatten()).unflatten(0, walks.nodes.shape)
        y = self.conv(self.lin_in(torch.cat([seen, known], dim=2)).transpose(1, 2))
        y = self.lin_out(self.norm(y).relu().transpose(1, 2)).relu()
        y = y * walks.moving.to(y.dtype).view(-1, 1, 1)
        new: Tensor = self.mlp(mean_at_target(middles, y.flatten(0, 1)), batch)
        return new + (h if self.rescale is None else self.rescale(h))


@register("CRaWl")
class CRaWl(EncodedModel):
    r"""Convolutions along random walks: nodes are described by the walks that pass them, over and over.

    Equations, layers :class:`WalkLayer`, g the graph of node i, with a virtual node v (v = 0 at first)::

        h <- layer_l(h, walks)
        v <- W' drop(relu(BN(W (v + sum over g of h)))),   h_i <- h_i + v_g         between layers
        y = head(relu(BN(h)))

    Args:
        frame: encoders, the width of the encoded nodes, factory of the head.
        layers: number of layers (``gnn.layers_mp``).
        dropout: drop (``gnn.dropout``).
        settings: keys of their own, see :class:`WalkSettings`.

    Shape:
        batch -> prediction of the head. A layer computes W (steps + 1) rows of ``width`` for W walks, in evaluation N.

    Walks are drawn anew in every training step. In evaluation a node's walk is always the same, whatever its batch; it
    depends on the numbering of the nodes, so that the model is invariant in distribution only.

    Differences from the released code: categories are embedded in as many columns as there are one-hot codes. Scores
    there are means over evaluations with walks of their own (10 in the end), here there is one. Walks from nodes
    without edges do not exist there; here they change nothing but the statistics of a BatchNorm. At least as many walks
    are drawn as there are graphs.
    """

    layers_from = "gnn"
    permutation_equivariant: ClassVar[bool] = False  # in distribution only

    def __init__(
        self,
        frame: EdgeFrame,
        layers: FromContext[int],
        *,
        dropout: FromContext[float] = 0.0,
        settings: WalkSettings = WalkSettings(),
    ) -> None:
        super().__init__(frame.encoder, frame.edge_encoder, keep_sparse=False)
        dim_encoded = frame.dim_encoded
        settings.check()
        check_at_least(1, layers=layers)
        self.settings, dim = settings, settings.width or dim_encoded
        known = 2 * settings.window - 1 + (0 if frame.edge_encoder is None else frame.dim_edge)
        self.layers: Modules[WalkLayer] = Modules(
            WalkLayer(dim if number else dim_encoded, dim, known, settings.kernel) for number in range(layers)
        )
        self.updates: Modules[NormedSequential] = Modules(
            NormedSequential(
                nn.Linear(dim, dim, bias=False),
                BatchNorm(dim),
                nn.ReLU(),
                Dropout(dropout),
                nn.Linear(dim, dim, bias=False),
            )
            for _ in range(layers - 1 if settings.virtual_node else 0)
        )
        self.norm, self.head = BatchNorm(dim), frame.head(dim)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Prediction of the head."""
        encoded, e, batch = self.encode(batch)
        h, s = as_dense(encoded), self.settings
        walks = draw_walks(batch, s.steps, s.start_ratio) if self.training else fixed_walks(batch, s.eval_steps)
        known = along(batch, walks, s.window).to(h.dtype)
        if e is not None:
            walked = F.pad(e, (0, 0, 0, 1)).index_select(0, walks.edges.flatten()).unflatten(0, walks.edges.shape)
            known = torch.cat([F.pad(walked, (0, 0, 1, 0)), known], dim=2)
        before = s.kernel // 2
        middle = walks.nodes[:, before : walks.nodes.shape[1] - (s.kernel - 1 - before)].flatten()
        middles = adjacency(torch.stack([middle, middle]), batch.num_nodes)
        v = None
        for number, layer in enumerate(self.layers):
            h = layer(h, known, walks, middles, batch)
            if number < len(self.updates):
                heard = segment_sum(h, batch.ragged)
                v = self.updates[number](heard if v is None else heard + v, batch, "graph")
                h = h + segment_repeat(v, batch.ragged)
        return self.head(self.norm(h, batch).relu(), batch)
