"""GraphGym's prediction MLP, used by several heads."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from graphbench.errors import check_at_least
from graphbench.layers.input_linear import InputLinear, Readable
from graphbench.layers.module_list import Modules
from graphbench.ops.unit_rows import unit_rows


class PredictionMLP(nn.Module):
    r"""``layers`` linear maps; after each but the last: h <- ReLU(h) / \|ReLU(h)\|_2, row by row.

    As in GraphGym, whose published numbers contain it, ``gnn.act``, ``gnn.batchnorm`` and ``gnn.dropout`` are not read:
    the activation is ReLU, hidden rows have length one, and there is neither BatchNorm nor dropout.

    Args:
        dim_in: width of the input.
        out_dim: width of the prediction.
        layers: number of linear maps; 0 counts as 1, as in GraphGym.
        dim_hidden: width of hidden rows; None: as the input.

    Shape:
        (R, dim_in) -> (R, out_dim)
    """

    def __init__(self, dim_in: int, out_dim: int, layers: int, dim_hidden: int | None = None) -> None:
        super().__init__()
        check_at_least(0, layers_post_mp=layers)
        hidden = dim_in if dim_hidden is None else dim_hidden
        widths = [dim_in, *[hidden] * (max(layers, 1) - 1), out_dim]
        self.lin: Modules[InputLinear] = Modules(InputLinear(a, b) for a, b in pairwise(widths))

    def forward(self, h: Readable) -> Tensor:
        """(R, out_dim) predictions."""
        *hidden, last = self.lin
        for linear in hidden:
            h = unit_rows(linear(h))
        return last(h)
