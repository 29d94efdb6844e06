"""Edge gates from the distance between positional encodings (https://arxiv.org/abs/2203.00199)."""

from __future__ import annotations

from torch import Tensor, nn

from graphbench.layers.activation import activation
from graphbench.ops.propagate import gather
from graphbench.structures import GraphBatch
from graphbench.structures.adjacency import Adjacency


class DistanceGate(nn.Sequential):
    r"""``r_st = sigmoid(W_2 act(W_1 |p_s - p_t|^2))``: the same under any rotation or sign flip of the encoding p.

    Args:
        dim: channels between the two maps.
        act: activation between them.

    Shape:
        p (N, dim_pe), ``state.stable_encoding``, -> r (E, 1).
    """

    def __init__(self, dim: int, *, act: str = "relu") -> None:
        super().__init__(nn.Linear(1, dim), activation(act), nn.Linear(dim, 1), nn.Sigmoid())

    def forward(self, adj: Adjacency, batch: GraphBatch) -> Tensor:  # type: ignore[override]
        """(E, 1) gates of the edges of ``adj``.

        Raises:
            ValueError: the batch does not carry the encoding.
        """
        p = batch.state.stable_encoding
        if p is None:
            raise ValueError(
                "equivstable reads batch.state.stable_encoding, which no encoder has supplied: name one that does in "
                "dataset.node_encoder_name, e.g. EquivStableRWSE"
            )
        gate = (gather(adj, p, "source") - gather(adj, p, "target")).square().sum(1, keepdim=True)
        for layer in self:
            gate = layer(gate)
        return gate
