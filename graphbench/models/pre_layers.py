"""GraphGym's general layer: a linear map or convolution, then BatchNorm, dropout, activation, L2 normalisation.

PyG, ``torch_geometric/graphgym/models/layer.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from graphbench.layers.activation import activation
from graphbench.layers.dropout import Dropout
from graphbench.layers.input_linear import InputLinear
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import BatchNorm, NoNorm
from graphbench.ops.unit_rows import unit_length
from graphbench.structures import Features, GraphBatch


@dataclass(frozen=True)
class LayerSettings:
    """Steps after every linear map and convolution of GraphGym's networks.

    Attributes:
        batchnorm: BatchNorm (``gnn.batchnorm``); a linear map before it has no bias.
        dropout: probability (``gnn.dropout``).
        act: activation (``gnn.act``).
        l2norm: divide every row by its length (``gnn.l2norm``).
        norm_eps: number added to the variance (``bn.eps``).
        norm_momentum: momentum of running statistics (``bn.mom``).
    """

    batchnorm: bool = True
    dropout: float = 0.0
    act: str = "relu"
    l2norm: bool = True
    norm_eps: float = 1e-5
    norm_momentum: float = 0.1


class PostLayer(nn.Module):
    r"""u <- v / \|v\|_2 with v = act(dropout(BatchNorm(u))); the steps are chosen by :class:`LayerSettings`.

    A subclass creates its linear map or convolution, then calls :meth:`add_steps`: parameters keep that order.
    """

    def add_steps(self, dim: int, settings: LayerSettings) -> None:
        """Creates the modules of the steps, for ``dim`` columns."""
        norm = BatchNorm(dim, eps=settings.norm_eps, momentum=settings.norm_momentum)
        self.norm = norm if settings.batchnorm else NoNorm()
        self.dropout = Dropout(settings.dropout)
        self.act = activation(settings.act)
        self.l2norm = settings.l2norm

    def finish(self, new: Tensor, batch: GraphBatch | None = None) -> Tensor:
        """(N, dim) after the steps, row by row."""
        u: Tensor = self.act(self.dropout(self.norm(new, batch)))
        return unit_length(u) if self.l2norm else u


class PreLayer(PostLayer):
    """A linear map with the steps of :class:`PostLayer`.

    Args:
        dim_in: width of the input.
        dim: width of the output.
        settings: see :class:`LayerSettings`.

    Shape:
        (N, dim_in) -> (N, dim)
    """

    def __init__(self, dim_in: int, dim: int, settings: LayerSettings) -> None:
        super().__init__()
        self.lin = InputLinear(dim_in, dim, bias=not settings.batchnorm)
        self.add_steps(dim, settings)

    def forward(self, h: Features, batch: GraphBatch | None = None) -> Tensor:
        """(N, dim)."""
        return self.finish(self.lin(h), batch)


def pre_layers(dim_in: int, dim: int, number: int, settings: LayerSettings) -> Modules[PreLayer]:
    """``number`` linear layers of width ``dim``, the first from ``dim_in`` (``gnn.layers_pre_mp``)."""
    return Modules(PreLayer(dim if i else dim_in, dim, settings) for i in range(number))
