"""UniMP: attention along edges over features and the labels of training nodes (https://arxiv.org/abs/2009.03509)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from graphbench.contract import ReadsTargets
from graphbench.errors import ArgumentError, check_at_least
from graphbench.layers.dropout import Dropout
from graphbench.layers.input_linear import InputLinear
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import LayerNorm
from graphbench.models.contract import EncodedModel, Frame
from graphbench.ops.edge_attention import edge_attention
from graphbench.registry import FromContext, register
from graphbench.structures import Features, GraphBatch
from graphbench.structures.known_targets import known_targets


@dataclass(frozen=True)
class LabelSettings:
    """Attention heads and labels; every field is a key of the model.

    Attributes:
        num_heads: attention heads, which divide the width.
        classes: number of classes of the labels that are embedded; 0: labels are not read.
        label_rate: share of the training nodes whose label is an input of a training step; the others have the loss.
    """

    num_heads: int = 4
    classes: int = 0
    label_rate: float = 0.625


class GatedEdgeAttention(nn.Module):
    r"""Attention along edges, with a gated residual.

    Per head c, with N(i) the sources of edges into i:

    .. math:: a_{ij} = \mathrm{softmax}_{j \in N(i)} \frac{(W_q h_i + b_q)_c \cdot (W_k h_j + b_k)_c}{\sqrt d}, \qquad
        \hat h_i = \sum_j a_{ij} (W_v h_j + b_v)_c

    .. math:: \beta_i = \sigma(w \cdot [\hat h_i; r_i; \hat h_i - r_i]), \quad r_i = W_r h_i + b_r, \qquad
        h'_i = (1 - \beta_i) \hat h_i + \beta_i r_i

    Heads are concatenated, each with d = dim / heads channels, or averaged, each with d = dim.

    Args:
        dim_in: width of the input.
        dim: width of the output.
        heads: attention heads.
        average: mean of the heads.

    Shape:
        h (N, dim_in), sparse rows among them, and what is added to them (N, dim_in) or None -> (N, dim)
    """

    def __init__(self, dim_in: int, dim: int, heads: int, *, average: bool) -> None:
        super().__init__()
        self.heads, self.average = heads, average
        width = heads * dim if average else dim
        self.widths = (width, width, width, dim)
        self.lin = InputLinear(dim_in, sum(self.widths))
        self.gate = nn.Linear(3 * dim, 1, bias=False)

    def forward(self, h: Features, batch: GraphBatch, added: Tensor | None = None) -> Tensor:
        """States (N, dim)."""
        mapped: Tensor = self.lin(h)
        if added is not None:
            mapped = mapped + nn.functional.linear(added, self.lin.weight)
        *heads, residual = mapped.split(self.widths, 1)
        q, k, v = (part.unflatten(1, (self.heads, -1)) for part in heads)
        around = edge_attention(batch.adjacency(), q, k, v)
        around = around.mean(1) if self.average else around.flatten(1)
        beta = self.gate(torch.cat([around, residual, around - residual], 1)).sigmoid()
        return (1 - beta) * around + beta * residual


@register("UniMP")
class UniMP(EncodedModel, ReadsTargets):
    r"""Unified message passing: labels of training nodes join the features of a stack of :class:`GatedEdgeAttention`.

    Equations, M the nodes whose label is an input::

        h_0 = X + 1[i in M] E[y_i],   h_l = drop(relu(LN(attention_l(h_{l-1})))),   y = head(attention_L(h_{L-1}))

    Masked label prediction: a training step draws M, ``label_rate`` of the training nodes, and learns from the others;
    evaluation reads the labels of all training nodes. The gradient is that of the mean loss over the nodes that are not
    in M, whatever rows the loss is computed on; its reported value has all of them.

    Args:
        frame: encoder, widths, factory of the head.
        layers: L (``gt.layers``); the last one averages its heads.
        dropout: between layers (``gnn.dropout``).
        labels: keys of their own, see :class:`LabelSettings`.

    Shape:
        batch -> prediction of the head

    Differences from the paper: its last layer has the width of the prediction, here ``dim``, and the head maps it.
    """

    def __init__(
        self,
        frame: Frame,
        layers: FromContext[int],
        *,
        dropout: FromContext[float] = 0.0,
        labels: LabelSettings = LabelSettings(),
    ) -> None:
        super().__init__(frame.encoder)
        dim, dim_encoded = frame.dim, frame.dim_encoded
        check_at_least(1, layers=layers, num_heads=labels.num_heads)
        check_at_least(0, classes=labels.classes)
        if dim % labels.num_heads:
            raise ArgumentError(
                "num_heads", f"num_heads must divide the width {dim} (gnn.dim_inner), received {labels.num_heads}"
            )
        if not 0 <= labels.label_rate < 1:
            raise ArgumentError("label_rate", f"label_rate must lie in [0, 1), received {labels.label_rate}")
        self.label_rate = labels.label_rate
        self.labels = nn.Embedding(labels.classes, dim_encoded) if labels.classes else None
        self.layers: Modules[GatedEdgeAttention] = Modules(
            GatedEdgeAttention(dim if i else dim_encoded, dim, labels.num_heads, average=i == layers - 1)
            for i in range(layers)
        )
        self.norms = nn.ModuleList(LayerNorm(dim) for _ in range(layers - 1))
        self.dropout = Dropout(dropout)
        self.head = frame.head(dim)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Prediction of the head."""
        x, _, batch = self.encode(batch)
        known = known_targets(batch)
        if self.labels is None or known is None or batch.y is None:
            return self.head(self._states(x, batch), batch)
        given = known & (torch.rand(known.shape, device=known.device) < self.label_rate) if self.training else known
        label = self.labels(batch.y.view(-1).long().clamp(0, self.labels.num_embeddings - 1))
        prediction = self.head(self._states(x, batch, given.unsqueeze(1) * label), batch)
        return _learning_from_others(prediction, known, given) if self.training else prediction

    def _states(self, x: Features, batch: GraphBatch, labels: Tensor | None = None) -> Tensor:
        first, *others = self.layers
        h: Tensor = first(x, batch, labels)
        for norm, layer in zip(self.norms, others):
            h = layer(self.dropout(norm(h).relu()), batch)
        return h


def _learning_from_others(prediction: Tensor, known: Tensor, given: Tensor) -> Tensor:
    """Predictions as they are; a mean over ``known`` rows gets the gradient of the mean over those not given."""
    asked = known & ~given
    scale = (known.sum() / asked.sum().clamp(min=1)) * asked
    kept = prediction.detach()
    return kept + scale.unsqueeze(1).to(kept.dtype) * (prediction - kept)
