"""Landing probabilities of random walks for layers that only use distances between encodings.

As Gradformer's released code has them on ogbg-molhiv (https://arxiv.org/abs/2404.15729, model/Gradformer.py).
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from graphbench.encoders.contract import BatchEncoder
from graphbench.encoders.mlp import raw_norm
from graphbench.errors import ArgumentError
from graphbench.registry import register
from graphbench.structures import GraphBatch


@register("EquivStableRWSE")
class EquivStableRWSE(BatchEncoder):
    """Random-walk return probabilities without a map, for layers that keep positions apart from states.

    p_i = the probabilities that a random walk from i is back at i after t steps.

    The node features stay as they are and keep their full width; local layers read p as ``state.stable_encoding`` and
    weigh an edge by the distance between its ends.

    Args:
        times: numbers of steps.
        raw_norm_type: ``none`` or ``BatchNorm`` over the numbers of each time.

    Shape:
        h (N, d), landing (N, len(times)) -> h, batch with ``state.stable_encoding`` (N, len(times))

    Differences from the released code: none known.
    """

    capturable: ClassVar[bool] = True
    transform: ClassVar[str | None] = "RandomWalkSE"
    supplies = "stable_encoding"
    gates_local_layers = True

    def __init__(self, times: list[int], *, raw_norm_type: str = "none") -> None:
        super().__init__()
        if not times:
            raise ArgumentError("times", "EquivStableRWSE: times must name at least one number of steps, received none")
        self.num_times = len(times)
        self.raw_norm = raw_norm("EquivStableRWSE", raw_norm_type, self.num_times)

    def forward(self, h: Tensor, batch: GraphBatch) -> tuple[Tensor, GraphBatch]:
        """``h`` as it came, and the batch with the encoding."""
        landing = self.encoding(batch, "landing", self.num_times).to(h.dtype)
        if self.raw_norm is not None:
            landing = self.raw_norm(landing, batch)
        return h, batch.with_state(stable_encoding=landing)
