"""Relative random-walk probabilities: GRIT, https://arxiv.org/abs/2305.17589."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from graphbench.encoders.contract import BatchEncoder
from graphbench.layers.all_pairs import all_pairs
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("RRWP")
class RRWP(BatchEncoder):
    r"""Relative random-walk probabilities, mapped: of staying, added to nodes, and of going from i to j, for layers.

    .. math:: h_i \leftarrow h_i + W_n \, p_{ii}, \qquad z_{ij} = W_p \, p_{ij}

    p: :class:`~graphbench.transforms.adjacency_powers.RandomWalkPowers`. GRIT's first layer adds the edge states to z.

    Args:
        dim: columns of ``h`` before those of encodings named after this one, and of z.
        ksteps: numbers per pair.

    Shape:
        h (N, dim + c) -> the same; z (sum n_g^2, dim) is ``state.edge_states["RRWP"]``.

    Differences from the released code: none known.
    """

    transform: ClassVar[str | None] = "RandomWalkPowers"
    supplies = "edge_states"

    def __init__(self, dim: FromContext[int], *, ksteps: int = 21) -> None:
        super().__init__()
        self.dim, self.ksteps = dim, ksteps
        self.nodes, self.pairs = nn.Linear(ksteps, dim, bias=False), nn.Linear(ksteps, dim, bias=False)
        nn.init.xavier_uniform_(self.nodes.weight)
        nn.init.xavier_uniform_(self.pairs.weight)

    def forward(self, h: Tensor, batch: GraphBatch) -> tuple[Tensor, GraphBatch]:
        """New node states, and the batch with the states of all pairs."""
        powers = batch.pair_pe.get("RRWP.powers")
        if powers is None or powers.shape[1] != self.ksteps:
            received = "none" if powers is None else f"{powers.shape[1]} numbers per pair"
            raise ValueError(f"RRWP reads {self.ksteps} random-walk probabilities of all pairs, received {received}")
        powers = powers.to(self.pairs.weight.dtype)
        staying = self.nodes(powers.index_select(0, batch.derived(all_pairs).of_node))
        h = h + F.pad(staying, (0, h.shape[1] - self.dim))
        return h, batch.with_state(edge_states={**batch.state.edge_states, "RRWP": self.pairs(powers)})
