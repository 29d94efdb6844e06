"""Random-walk structural encoding.

Dwivedi et al., Graph Neural Networks with Learnable Structural and Positional Representations,
https://arxiv.org/abs/2110.07875.
"""

from __future__ import annotations

from torch import Tensor, nn

from graphbench.encoders.inputs import precomputed
from graphbench.encoders.mlp import ReLUStack
from graphbench.layers.norm import BatchNorm
from graphbench.registry import register
from graphbench.structures import GraphBatch


@register("RWSE")
class RWSE(nn.Module):
    """pe_i = net( [P^t_ii for t in times] ), the probabilities that a random walk from i is back after t steps.

    Args:
        dim_pe: width of the encoding.
        times: numbers of steps, as given to the transform.
        model: ``mlp`` (linear maps with a ReLU after each) or ``linear`` (case ignored).
        layers: linear maps of the MLP.
        raw_norm_type: ``none`` or ``BatchNorm`` over the probabilities.

    Shape:
        landing probabilities (N, len(times)) -> (N, dim_pe)
    """

    transform = "RandomWalkSE"

    def __init__(
        self, dim_pe: int, times: list[int], *, model: str = "linear", layers: int = 3, raw_norm_type: str = "none"
    ):
        super().__init__()
        kind = model.lower()
        if kind not in ("mlp", "linear"):
            raise ValueError(f"RWSE: model must be mlp or linear, received '{model}'")
        if raw_norm_type.lower() not in ("none", "batchnorm"):
            raise ValueError(f"RWSE: raw_norm_type must be none or BatchNorm, received '{raw_norm_type}'")
        if not times:
            raise ValueError("RWSE: times must name at least one number of steps, received none")
        if min(dim_pe, layers) < 1:
            raise ValueError(f"RWSE: dim_pe and layers must be 1 or more, received {dim_pe} and {layers}")
        self.num_times = len(times)
        self.raw_norm = BatchNorm(self.num_times) if raw_norm_type.lower() == "batchnorm" else None
        self.lin = nn.Linear(self.num_times, dim_pe) if kind == "linear" else None
        self.mlp = ReLUStack(self.num_times, dim_pe, layers) if kind == "mlp" else None

    def forward(self, batch: GraphBatch) -> Tensor:
        """Encodes every node."""
        landing = precomputed(batch, "RWSE", "landing", self.num_times).to(next(self.parameters()).dtype)
        if self.raw_norm is not None:
            landing = self.raw_norm(landing)
        return self.mlp(landing) if self.lin is None else self.lin(landing)
