"""GNN-AK+: a network in the ego net of every node as the kernel of a convolution (https://arxiv.org/abs/2110.03753)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphbench.errors import ArgumentError, check_at_least, check_one_of
from graphbench.heads.pooling import pooling_function
from graphbench.layers.contract import LocalLayer
from graphbench.layers.dropout import Dropout
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import BatchNorm
from graphbench.models.contract import EdgeFrame, EncodedModel
from graphbench.models.ego_nets import EgoNets, Pool
from graphbench.models.graph_trans import graphs_as_nodes
from graphbench.models.requirements import EdgeTables, Tables, check_same_width, local_layers
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch, as_dense


@dataclass(frozen=True)
class KernelSettings:
    """Nets, and what is read of them; every field is a key of the model.

    Attributes:
        hops: radius of a net.
        hop_dim: channels of the embedded distance from the root.
        inner_layers: local layers in a net.
        centroid: a node is described by its state in its own net.
        subgraph: .. by the states of all nodes in its net.
        context: .. by its states in the nets of others.
        combine: ``concat`` (and a linear map) or ``add``.
        pool: ``add`` or ``mean``, over nets, copies and graphs.
        edge_tables: see :class:`~graphbench.models.requirements.EdgeTables`; layers read ``dim + hop_dim`` columns.
    """

    hops: int = 3
    hop_dim: int = 16
    inner_layers: int = 1
    centroid: bool = True
    subgraph: bool = True
    context: bool = True
    combine: Literal["concat", "add"] = "concat"
    pool: Pool = "add"
    edge_tables: Tables = "shared"

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the descriptions in use."""
        return tuple(name for name in ("centroid", "subgraph", "context") if getattr(self, name))

    def check(self) -> None:
        """Refuses what no model can have.

        Raises:
            ArgumentError: no hops, channels, layers or descriptions, or an unknown way to combine or pool.
        """
        check_at_least(1, hops=self.hops, hop_dim=self.hop_dim, inner_layers=self.inner_layers)
        if not self.parts:
            raise ArgumentError(
                ("centroid", "subgraph", "context"), "centroid, subgraph or context must be true, received none of them"
            )
        check_one_of(("concat", "add"), combine=self.combine)
        check_one_of(get_args(Pool), pool=self.pool)


class EgoNetConvolution(nn.Module):
    """Local layers in every net, and what they make of a node.

    Equations, v in the net of k at distance d, P the pooling, T = relu(BN(W .)), and T = 1 where there is one part::

        z_vk = [x_v | H_d],   z <- z + drop(relu(BN(LOCAL(z, e)))),   u_vk = W z_vk + b
        c_k = s_1(0) * u_kk,   n_k = P_v s_2(d) * T_2(drop(u_vk)),   t_v = P_k s_3(d) * T_3(drop(u_vk))
        y = W' drop([c | n | t])    or    c + n + t,    s_i(d) = sigmoid(W_i H_d + b_i)

    Args:
        dim: channels.
        dropout: drop.
        local: factory of local layers, for ``dim + hop_dim`` channels.
        settings: see :class:`KernelSettings`.

    Shape:
        x (N, dim), e (E, dim_edge) or None -> (N, dim)
    """

    def __init__(
        self, dim: int, dropout: float, local: Callable[[int, int], LocalLayer], settings: KernelSettings
    ) -> None:
        super().__init__()
        width, parts, self.pool = dim + settings.hop_dim, settings.parts, settings.pool
        self.hop_table = nn.Parameter(torch.randn(settings.hops + 1, settings.hop_dim))
        self.layers: Modules[LocalLayer] = Modules(local(width, width) for _ in range(settings.inner_layers))
        self.norms: Modules[BatchNorm] = Modules(BatchNorm(width) for _ in range(settings.inner_layers))
        self.lin_out = nn.Linear(width, dim)
        self.gates = nn.ModuleDict({name: nn.Linear(settings.hop_dim, dim) for name in parts})
        mapped = [name for name in parts if name != "centroid" and len(parts) > 1]
        self.maps = nn.ModuleDict(
            {name: nn.Sequential(nn.Linear(dim, dim, bias=False), BatchNorm(dim), nn.ReLU()) for name in mapped}
        )
        self.join = nn.Linear(len(parts) * dim, dim, bias=False) if settings.combine == "concat" else None
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, e: Tensor | None, nets: EgoNets) -> Tensor:
        """(N, dim) new states, without norm, activation and residual."""
        assert nets.hop is not None
        z = torch.cat([nets.copied(x), F.embedding(nets.hop, self.hop_table)], dim=1)
        e = None if e is None else e.index_select(0, nets.edge)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            new, _, _ = layer.step(z, e, nets.inside)
            z = z + self.dropout(norm(new).relu())
        u, found = self.lin_out(z), []
        for name, gate in self.gates.items():
            scale = gate(self.hop_table).sigmoid()
            if name == "centroid":
                found.append(u.index_select(0, nets.centre) * scale[:1])
                continue
            mapped = self.maps[name](self.dropout(u)) if name in self.maps else u
            gated = mapped * F.embedding(nets.hop, scale)
            found.append((nets.over_nets if name == "subgraph" else nets.over_copies)(gated, self.pool))
        if self.join is None:
            return torch.stack(found).sum(0)
        return self.join(self.dropout(torch.cat(found, dim=1)))


@register("GNNAK")
class GNNAK(EncodedModel):
    r"""Convolution whose kernel is a network: every node hears what local layers make of its ego net.

    Equations, P the pooling, layers :class:`EgoNetConvolution`::

        x <- x + drop(relu(BN(layer_l(x, e)))),   y = head(drop(P over the nodes of a graph of x))

    With the local layer ``OGBGIN`` of ``expansion`` 1 this is GIN-AK+.

    Args:
        frame: encoders, widths, those of nodes and layers the same, factory of the head, which reads one row per graph.
        layers: number of them (``gnn.layers_mp``).
        local: factory of local layers (``gnn.layer_type``).
        dropout: drop (``gnn.dropout``).
        kernel: keys of their own, see :class:`KernelSettings`.

    Shape:
        batch -> prediction of the head. A layer computes M rows of ``dim + hop_dim`` and M' messages, for M nodes and
        M' edges in the nets of all nodes: on molecules and for three hops 9 N and 18 N.

    Differences from the released code: maps of ``OGBGIN`` have biases, which the norms behind take out. Training on a
    sample of the nets (SubgraphDrop), nets of random walks, the virtual node, PPGN as a kernel and GNN-AK without
    distances are not here.
    """

    layers_from = "gnn"
    of_graphs = True

    def __init__(
        self,
        frame: EdgeFrame,
        layers: FromContext[int],
        local: FromContext[Callable[[int, int], LocalLayer] | None],
        *,
        dropout: FromContext[float] = 0.0,
        kernel: KernelSettings = KernelSettings(),
    ) -> None:
        super().__init__(frame.encoder, frame.edge_encoder, keep_sparse=False)
        dim = frame.dim
        kernel.check()
        local = local_layers(local, layers)
        check_same_width(frame.dim_encoded, dim, "encoded nodes are added to hidden states")
        self.tables = EdgeTables(kernel.edge_tables, dim + kernel.hop_dim, layers, frame.edge_columns)
        self.layers: Modules[EgoNetConvolution] = Modules(
            EgoNetConvolution(dim, dropout, local, kernel) for _ in range(layers)
        )
        self.norms: Modules[BatchNorm] = Modules(BatchNorm(dim) for _ in range(layers))
        self.pool, self.dropout, self.head = pooling_function(kernel.pool), Dropout(dropout), frame.head(dim)

    @classmethod
    def required_transforms(cls, arguments: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """The nodes of the nets, and the edges inside them."""
        return {"HopNeighbors": {"cutoff": arguments["hops"]}, "EgoNetEdges": {"hops": arguments["hops"]}}

    def forward(self, batch: GraphBatch) -> Tensor:
        """Prediction of the head."""
        h, e, batch = self.encode(batch)
        x, nets = as_dense(h), batch.derived(EgoNets)
        for number, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            new = layer(x, self.tables.of(e, number), nets)
            x = x + self.dropout(norm(new, batch).relu())
        rows = self.dropout(self.pool(x, batch.ragged))
        return self.head(rows, batch.derived(graphs_as_nodes))
