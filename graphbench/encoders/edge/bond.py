"""OGB's three bond columns, one table each."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from graphbench.encoders.contract import FeatureEncoder
from graphbench.encoders.inputs import edge_features, embed_columns
from graphbench.layers.module_list import Modules
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch

# Categories per column in ogb.utils.features (ogb 1.3.6): bond type, stereo, conjugated.
BOND_COLUMNS = (5, 6, 2)


@register("Bond")
class Bond(FeatureEncoder):
    """Embedding of OGB's three bond features, one table per feature.

    e_ij = sum over the three columns c of table_c[a_ijc].

    Args:
        dim: width of the result.

    Shape:
        edge_attr (E, 3) int64 -> (E, dim)
    """

    capturable: ClassVar[bool] = True
    columns: ClassVar[int | None] = len(BOND_COLUMNS)

    def __init__(self, dim: FromContext[int]) -> None:
        super().__init__()
        self.bond_emb: Modules[nn.Embedding] = Modules(nn.Embedding(size, dim) for size in BOND_COLUMNS)
        for table in self.bond_emb:
            nn.init.xavier_uniform_(table.weight)

    def forward(self, batch: GraphBatch) -> Tensor:
        """(E, dim) first edge states."""
        a = edge_features(batch, "Bond")
        if a.dim() != 2 or a.shape[1] != len(self.bond_emb):
            raise ValueError(f"Bond reads {len(self.bond_emb)} columns, received edge_attr of shape {tuple(a.shape)}")
        return embed_columns(list(self.bond_emb), a, "Bond")
