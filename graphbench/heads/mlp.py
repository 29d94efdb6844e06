"""The prediction network of GraphGym, shared by its heads."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional as F

from graphbench.errors import ArgumentError
from graphbench.layers.input_linear import InputLinear, Readable


class PredictionMLP(nn.Module):
    r"""``layers`` linear maps; after each but the last: h <- ReLU(h) / \|ReLU(h)\|_2, row by row.

    The activation is ReLU whatever ``gnn.act`` says, there is no BatchNorm and no dropout whatever ``gnn.*`` says, and
    hidden rows have length one: that is GraphGym's behaviour, and published numbers contain it.

    Args:
        dim_in: width of the input.
        out_dim: width of the prediction.
        layers: number of linear maps; 0 counts as 1, as in GraphGym.
        dim_hidden: width of hidden rows; None: as the input.

    Shape:
        (R, dim_in) -> (R, out_dim)
    """

    def __init__(self, dim_in: int, out_dim: int, layers: int, dim_hidden: int | None = None):
        super().__init__()
        if layers < 0:
            raise ArgumentError("layers_post_mp", f"layers_post_mp must be 0 or more, received {layers}")
        hidden = dim_in if dim_hidden is None else dim_hidden
        widths = [dim_in, *[hidden] * (max(layers, 1) - 1), out_dim]
        self.lin = nn.ModuleList(InputLinear(a, b) for a, b in pairwise(widths))

    def forward(self, h: Readable) -> Tensor:
        """Predicts from rows."""
        for hidden in self.lin[:-1]:
            h = F.normalize(hidden(h).relu(), dim=-1)
        return self.lin[-1](h)
