"""Gradformer: attention whose scores decay with the distance of two nodes.

Liu et al., Gradformer: Graph Transformer with Exponential Decay, https://arxiv.org/abs/2404.15729; released code
https://github.com/LiuChuang0059/Gradformer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from graphbench.contract import HasStatistics, TiesParameters
from graphbench.errors import check_one_of
from graphbench.layers.attention.transformer import Transformer
from graphbench.ops.decay_attention import Decay, decay_attention
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch

INDICES: dict[str, tuple[str, dict[str, Any], str]] = {
    "spd": ("ShortestPaths", {}, ""),
    "ricci": ("RicciCurvature", {"pairs": True}, "RicciCurvature.length"),
    "cosine": ("CosineSimilarity", {"pairs": True}, "CosineSimilarity.dissimilarity"),
}
"""Distances by name: transform, its arguments, key of its result in ``batch.pair_pe``; empty for ``batch.pairs``."""


@register("Gradformer")
class Gradformer(Transformer, HasStatistics, TiesParameters):
    r"""Softmax attention with a decay mask (paper, equations 4 and 5).

    .. math:: \mathrm{head}_c = \mathrm{softmax}(S_c \odot M_c) V_c, \qquad S_c = Q_c K_c^\top / \sqrt{d_k}, \qquad
        M_{c,ij} = \lambda^{\mathrm{ReLU}(\psi_{ij} - s_c)}

    Pairs nearer than the start point :math:`s_c` keep their score; farther ones lose it, so that all far nodes weigh
    the same, exp 0. :math:`s` is learned, one number per head, the same in all layers; :math:`\lambda = 1` is
    :class:`~graphbench.layers.attention.transformer.Transformer`.

    Args:
        dim: channels of input and output, divisible by ``heads``.
        heads: H.
        dropout: probability of dropping an attention weight.
        decay: lambda, 0 .. 1.
        start: first value of every s, in the units of ``index``.
        slope: slope of LeakyReLU in place of ReLU (released code); above 0, pairs nearer than s are amplified.
        kind: ``exponential``, or ``linear``: :math:`M = \max(0, 1 - \mathrm{ReLU}(\psi - s) / (e - s))` (Figure 6).
        end: e, needed for ``linear``.
        mask_on: ``scores`` as above, or ``probs``: the mask multiplies softmax(S), whose rows are divided by their sum.
        unreachable: pairs without a path: ``far`` (at 510 as in the released code, M is nearly 0), ``full`` (M = 1, as
            the paper's -1 would have it) or ``mask`` (not attended to).
        share_start: one s for all layers of a model.
        learn_start: False keeps s where it starts.
        equal_start: the maps of Q, K, V and of the output start as copies of one linear map (released code).
        index: psi (Figure 5). ``spd``: hops. ``ricci``: length of the shortest path whose edges have the length
            1 - curvature. ``cosine``: 1 - cosine of the node features. M = 1 for pairs with a graph token.

    Shape:
        h (N, dim), and a batch with psi of all pairs -> (N, dim); edge states are not read.

    Differences from the paper:
        The paper's -1 for pairs without a path is ``unreachable: full``; the default is the released code, as is a
        ``slope`` above 0 on some data sets (the paper's ReLU is 0). How the other two indices become distances is our
        reading: the paper names them and says no more.
    """

    capturable: ClassVar[bool] = True
    reads_edge_states: ClassVar[bool] = False

    def __init__(
        self,
        dim: FromContext[int],
        heads: FromContext[int],
        *,
        dropout: FromContext[float] = 0.0,
        decay: float = 0.6,
        start: float = 5.0,
        slope: float = 0.0,
        kind: Literal["exponential", "linear"] = "exponential",
        end: float | None = None,
        mask_on: Literal["scores", "probs"] = "scores",
        unreachable: Literal["far", "full", "mask"] = "far",
        share_start: bool = True,
        learn_start: bool = True,
        equal_start: bool = False,
        index: Literal["spd", "ricci", "cosine"] = "spd",
    ) -> None:
        super().__init__(dim, heads, dropout=dropout)
        check_one_of(INDICES, index=index)
        self.mask = Decay(decay, slope, kind, end, mask_on, unreachable)
        self.index = index
        self.share_start = share_start
        self.start = nn.Parameter(torch.full((heads,), float(start)), requires_grad=learn_start)
        if equal_start:
            one = nn.Linear(dim, dim)
            with torch.no_grad():
                self.qkv.weight.copy_(one.weight.repeat(3, 1))
                self.qkv.bias.copy_(one.bias.repeat(3))
            self.out.load_state_dict(one.state_dict())

    @classmethod
    def required_transforms(cls, arguments: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """The transform that computes psi."""
        transform, settings, _ = INDICES[arguments["index"]]
        return {transform: settings}

    def tie(self, first: Gradformer) -> None:
        """Shares the start points of the first layer, with ``share_start``."""
        if self.share_start:
            self.start = first.start

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """New node states (N, dim), without residual and norm."""
        qkv = self._projections(h)
        q, k, v = qkv.unbind(1)
        options = {"dropout_p": self.dropout if self.training else 0.0, "packed": qkv, **self.mask.arguments}
        mixed = decay_attention(q, k, v, batch.ragged, self.distances(batch), self.start, **options)
        return self.out(mixed.reshape(h.shape))

    def distances(self, batch: GraphBatch) -> Tensor:
        """(sum n_g^2,) psi of all pairs.

        Raises:
            ValueError: the batch does not have them.
        """
        transform, _, key = INDICES[self.index]
        psi = batch.pair_pe.get(key)
        if not key and batch.pairs is not None:
            psi = batch.pairs.distance
        if psi is None:
            raise ValueError(
                f"Gradformer with index '{self.index}' reads what the transform {transform} computes; none found"
            )
        return psi

    def statistics(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> dict[str, Tensor]:
        """(G,) start point of every head, the same for all graphs."""
        starts = self.start.detach()[:, None].expand(-1, batch.num_graphs)
        return {f"start_{head}": start for head, start in enumerate(starts)}

    def attention_weights(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> list[Tensor]:
        """Weights without dropout, (heads, n, n) per graph; row i is what node i attends to."""
        q, k, _ = self._projections(h).unbind(1)
        sizes = batch.ragged.sizes
        distances = self.distances(batch).split([size * size for size in sizes])
        graphs = zip(q.split(sizes), k.split(sizes), distances, strict=True)
        return [self.mask.weights(q_ihd, k_jhd, psi, self.start) for q_ihd, k_jhd, psi in graphs]

    def extra_repr(self) -> str:
        """The mask, in ``print(model)``."""
        return f"{super().extra_repr()}, index={self.index}, {self.mask}"
