"""Convolutions with GraphGym's names and arguments (``model.type: gnn``).

PyG, ``torch_geometric/graphgym/models/layer.py``; GraphGPS adds ``gineconv`` and ``gatedgcnconv``. The model adds norm,
dropout and activation, see :mod:`graphbench.models.gnn`; a convolution before a BatchNorm has no bias.
"""

from __future__ import annotations

from graphbench.layers.local.gat import GAT
from graphbench.layers.local.gated_gcn import CustomGatedGCN
from graphbench.layers.local.gcn import GCN
from graphbench.layers.local.gin import GIN, GINE
from graphbench.layers.local.sage import SAGE
from graphbench.registry import FromContext, register


@register("gcnconv")
class GraphGymGCN(GCN):
    """GraphGym's GCN: :class:`~graphbench.layers.local.gcn.GCN`.

    Args:
        dim_in: channels of the input.
        dim_out: channels of the output.
        batchnorm: a BatchNorm follows, and there is no bias.
    """

    def __init__(
        self, dim_in: FromContext[int], dim_out: FromContext[int], *, batchnorm: FromContext[bool] = True
    ) -> None:
        super().__init__(dim_in, dim_out, bias=not batchnorm)


@register("sageconv")
class GraphGymSAGE(SAGE):
    """GraphGym's SAGE: :class:`~graphbench.layers.local.sage.SAGE`; arguments as :class:`GraphGymGCN`."""

    def __init__(
        self, dim_in: FromContext[int], dim_out: FromContext[int], *, batchnorm: FromContext[bool] = True
    ) -> None:
        super().__init__(dim_in, dim_out, bias=not batchnorm)


@register("gatconv")
class GraphGymGAT(GAT):
    """GraphGym's GAT: :class:`~graphbench.layers.local.gat.GAT` with one head and no edge states.

    Arguments as :class:`GraphGymGCN`.
    """

    def __init__(
        self, dim_in: FromContext[int], dim_out: FromContext[int], *, batchnorm: FromContext[bool] = True
    ) -> None:
        super().__init__(dim_in, dim_out, bias=not batchnorm)


@register("ginconv")
class GraphGymGIN(GIN):
    """GraphGym's GIN: :class:`~graphbench.layers.local.gin.GIN`, relu inside.

    Args:
        dim_in: channels of the input.
        dim_out: channels of the output.
    """

    def __init__(self, dim_in: FromContext[int], dim_out: FromContext[int]) -> None:
        super().__init__(dim_in, dim_out)


@register("gineconv")
class GraphGymGINE(GINE):
    """GraphGym's GINE: :class:`~graphbench.layers.local.gin.GINE`, relu inside.

    Args:
        dim_in: channels of the input.
        dim_out: channels of the output.
        dim_edge: channels of the edge states.
    """

    def __init__(self, dim_in: FromContext[int], dim_out: FromContext[int], *, dim_edge: FromContext[int]) -> None:
        super().__init__(dim_in, dim_out, dim_edge=dim_edge)


@register("gatedgcnconv")
class GraphGymGatedGCN(CustomGatedGCN):
    """GraphGym's GatedGCN: :class:`~graphbench.layers.local.gated_gcn.CustomGatedGCN` without residuals and dropout.

    Args:
        dim_in: channels of the input.
        dim_out: channels of the output.
        dim_edge: channels of the edge states.
        act: activation.
        edge_residual: add the old edge states all the same.
    """

    def __init__(
        self,
        dim_in: FromContext[int],
        dim_out: FromContext[int],
        *,
        dim_edge: FromContext[int],
        act: FromContext[str] = "relu",
        edge_residual: FromContext[bool | None] = None,
    ) -> None:
        super().__init__(dim_in, dim_out, dim_edge=dim_edge, act=act, residual=False, edge_residual=edge_residual)
