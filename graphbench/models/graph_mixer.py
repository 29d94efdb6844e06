"""Graph MLP-Mixer and Graph ViT: He et al., A Generalization of ViT/MLP-Mixer to Graphs, https://arxiv.org/abs/2212.13350."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from graphbench.errors import check_one_of
from graphbench.layers.contract import LocalLayer
from graphbench.layers.dropout import Dropout
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import BatchNorm
from graphbench.models.contract import EdgeFrame, EncodedModel
from graphbench.models.graph_trans import graphs_as_nodes
from graphbench.models.patch_mixers import MIXERS
from graphbench.models.requirements import check_same_width, local_layers
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch, Ragged, as_dense


@dataclass(frozen=True)
class PatchSettings:
    """Patches and what mixes them; every field is a key of the model.

    Attributes:
        patches: P, per graph.
        hops: number of hops by which patches overlap.
        partition: ``bisection`` or ``metis``, see :mod:`graphbench.transforms.patches`.
        patch_steps: random-walk steps over overlapping patches that encode a patch; 0: no such encoding.
        mixer: ``mlp`` (MLP-Mixer), ``hadamard`` or ``standard`` (ViT), see :mod:`graphbench.models.patch_mixers`.
        mixer_layers: layers of the mixer.
        mixer_dropout: dropout of the mixer.
    """

    patches: int = 32
    hops: int = 1
    partition: Literal["bisection", "metis"] = "bisection"
    patch_steps: int = 8
    mixer: Literal["mlp", "hadamard", "standard"] = "mlp"
    mixer_layers: int = 4
    mixer_dropout: float = 0.0


@register("GraphMixer")
class GraphMixer(EncodedModel):
    r"""Message passing inside overlapping patches of a graph, then an MLP-Mixer or attention over the patches.

    Equations, v a node in a patch p, mean_p over the nodes of p, mean_v over the copies of node v in all patches::

        x_vp <- x_vp + U_l(mean_p x),   x_vp <- mean_v x          before every local layer but the first
        x_vp <- W (x_vp + drop(relu(BN(LOCAL_l(x, e))))) + b      along the edges inside p
        s_p   = mean_p x + V(d_p),    d_p = [(C_pp), .., (C^k)_pp]
        y     = head(mean over the patches that are not empty of mixer(s))

    C: D^-1 times the numbers of nodes that patches share; U, V: linear map, BatchNorm, ReLU.

    Args:
        frame: encoders, widths, those of nodes and layers the same, factory of the head, which reads one row per graph.
        layers: local layers (``gnn.layers_mp``).
        local: factory of local layers (``gnn.layer_type``).
        dropout: dropout in the local part (``gnn.dropout``).
        patch: keys of their own, see :class:`PatchSettings`.

    Shape:
        batch -> prediction of the head

    Differences from the released code: the partition is computed once, there anew in every epoch from a graph that has
    lost 30 % of its edges (an augmentation); nodes of a graph with fewer nodes than patches have patches in their
    order, there in random order. Patches are halves of breadth-first searches unless ``partition`` is ``metis``. Maps
    of ``OGBGIN`` have biases, which the norms behind take out.
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
        patch: PatchSettings = PatchSettings(),
    ) -> None:
        super().__init__(frame.encoder, frame.edge_encoder, keep_sparse=False)
        dim = frame.dim
        local = local_layers(local, layers)
        check_same_width(frame.dim_encoded, dim, "encoded nodes are added to hidden states")
        check_one_of(MIXERS, mixer=patch.mixer)
        self.patch = patch
        self.layers: Modules[LocalLayer] = Modules(local(dim, dim) for _ in range(layers))
        self.norms: Modules[BatchNorm] = Modules(BatchNorm(dim) for _ in range(layers))
        self.maps = nn.ModuleList(nn.Linear(dim, dim) for _ in range(layers))
        self.exchanges = nn.ModuleList(_map(dim, dim) for _ in range(layers - 1))
        self.patch_encoder = _map(patch.patch_steps, dim) if patch.patch_steps else None
        self.mixer = MIXERS[patch.mixer](dim, patch.patches, patch.mixer_layers, patch.mixer_dropout)
        self.dropout = Dropout(dropout)
        self.head = frame.head(dim)

    @classmethod
    def required_transforms(cls, arguments: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """The patches and the edges inside them."""
        wanted = {"patches": arguments["patches"], "hops": arguments["hops"], "method": arguments["partition"]}
        return {"Patches": wanted, "PatchEdges": wanted}

    def forward(self, batch: GraphBatch) -> Tensor:
        """Prediction of the head."""
        h, e, batch = self.encode(batch)
        patches = batch.derived(_patches, self.patch.patches)
        x = as_dense(h).index_select(0, patches.node)
        e = None if e is None else e.index_select(0, patches.edge)
        for number, layer in enumerate(self.layers):
            if number:
                mean = patches.mean_of_patches(x)
                x = x + self.exchanges[number - 1](mean.index_select(0, patches.patch))
                x = patches.mean_of_copies(x).index_select(0, patches.node)
            new, _, _ = layer.step(x, e, patches.inside)
            x = self.maps[number](x + self.dropout(self.norms[number](new).relu()))
        states = patches.mean_of_patches(x)
        if self.patch_encoder is not None:
            states = states + self.patch_encoder(patches.returns(self.patch.patch_steps, states.dtype))
        grid = states.view(batch.num_graphs, self.patch.patches, states.shape[-1])
        mixed = self.mixer(grid, patches.overlap.to(states.dtype), patches.filled)
        filled = patches.filled.unsqueeze(2).to(mixed.dtype)
        rows = (mixed * filled).sum(1) / filled.sum(1).clamp(min=1)
        return self.head(rows, batch.derived(graphs_as_nodes))


class _Patches:
    """The patches of all graphs of a batch, numbered ``graph * P + patch``.

    Attributes:
        node: (M,) node of every membership.
        patch: (M,) its patch.
        edge: (M',) edge of the batch behind every edge inside a patch.
        inside: memberships as the nodes of one graph, joined by these edges.
        overlap: (G, P, P) nodes that two patches share.
        filled: (G, P) bool, patches with a node.
    """

    def __init__(self, batch: GraphBatch, patches: int) -> None:
        if "Patches" not in batch.edge_sets or "PatchEdges" not in batch.edge_sets:
            raise ValueError("GraphMixer reads the edge sets Patches and PatchEdges, which its transforms compute")
        members, edges, graph = batch.edge_sets["Patches"], batch.edge_sets["PatchEdges"], batch.ragged.graph_id
        assert members.attr is not None
        assert edges.attr is not None
        self.num_nodes, self.num_patches = batch.num_nodes, batch.num_graphs * patches
        self.node = members.index[0]
        self.patch = graph.index_select(0, self.node) * patches + members.attr
        of_edge = graph.index_select(0, edges.index[0])
        number, source, target = edges.attr.unbind(1)
        counts = torch.zeros(batch.num_graphs, dtype=torch.int64, device=batch.device)
        counts = counts.index_add(0, graph.index_select(0, batch.edge_index[0]), torch.ones_like(batch.edge_index[0]))
        self.edge = number + (counts.cumsum(0) - counts).index_select(0, of_edge)
        first = members.ptr.index_select(0, of_edge)
        self.inside = GraphBatch(
            Ragged.from_sizes([len(self.node)], batch.device), torch.stack([source + first, target + first])
        )
        share = torch.zeros(self.num_nodes, patches, device=batch.device)
        share = share.index_put((self.node, members.attr), torch.ones_like(self.node, dtype=share.dtype))
        outer = torch.einsum("np,nq->npq", share, share)
        self.overlap = outer.new_zeros(batch.num_graphs, patches, patches).index_add(0, graph, outer)
        self.filled = self.overlap.diagonal(dim1=1, dim2=2) > 0

    def mean_of_patches(self, x: Tensor) -> Tensor:
        """(G P, dim) mean over the nodes of every patch, 0 for an empty one."""
        return _mean(x, self.patch, self.num_patches)

    def mean_of_copies(self, x: Tensor) -> Tensor:
        """(N, dim) mean over the memberships of every node."""
        return _mean(x, self.node, self.num_nodes)

    def returns(self, steps: int, dtype: torch.dtype) -> Tensor:
        """(G P, steps) probabilities that a random walk over overlapping patches is back after 1, 2, .. steps."""
        overlap = self.overlap.to(dtype)
        walk = overlap / overlap.sum(2, keepdim=True).clamp(min=1)
        power, diagonals = walk, [walk.diagonal(dim1=1, dim2=2)]
        for _ in range(steps - 1):
            power = power @ walk
            diagonals.append(power.diagonal(dim1=1, dim2=2))
        return torch.stack(diagonals, dim=2).flatten(0, 1)


def _patches(batch: GraphBatch, patches: int) -> _Patches:
    return _Patches(batch, patches)


def _mean(x: Tensor, group: Tensor, groups: int) -> Tensor:
    total = x.new_zeros(groups, x.shape[1]).index_add(0, group, x)
    count = x.new_zeros(groups).index_add(0, group, x.new_ones(len(group)))
    return total / count.clamp(min=1).unsqueeze(1)


def _map(dim_in: int, dim_out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(dim_in, dim_out, bias=False), BatchNorm(dim_out), nn.ReLU())
