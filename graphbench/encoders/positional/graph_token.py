"""A node that represents the whole graph: the task token of FFGT and GRPE, the graph token of Graphormer.

Ying et al., https://arxiv.org/abs/2106.05234, section 3.1.3; Park et al. (GRPE), https://arxiv.org/abs/2201.12787.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from graphbench.encoders.contract import BatchEncoder
from graphbench.encoders.token import with_token
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("GraphToken")
class GraphToken(BatchEncoder):
    r"""Graph token: one more node, inserted as the first of every graph, empty ones included.

    .. math:: h \leftarrow [\, t \;|\; h_1, .., h_n \,]

    t: one learned state for all graphs. The token has no edges, so that local layers pass no messages to it; its
    distance in ``pairs`` and ``hops`` is ``TOKEN``, by which attention recognises it. Heads read it with
    ``model.graph_pooling graph_token``.

    Args:
        dim: columns of ``h``; the columns of encodings named after this one are 0 for the token.

    Shape:
        h (N, dim + c) -> (N + G, dim + c) and the batch that has these nodes; see :mod:`graphbench.encoders.token`.
    """

    capturable: ClassVar[bool] = True
    adds_token: bool = True

    def __init__(self, dim: FromContext[int]) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.empty(1, dim))
        nn.init.normal_(self.token, std=0.02)

    def forward(self, h: Tensor, batch: GraphBatch) -> tuple[Tensor, GraphBatch]:
        """States (N + G, dim + c) of nodes and tokens, and the batch to go on with."""
        return with_token(h, self.token.to(h.dtype), batch, "GraphToken")
