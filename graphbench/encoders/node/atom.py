"""OGB's nine atom columns, one table each."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor, nn

from graphbench.encoders.contract import FeatureEncoder
from graphbench.encoders.inputs import embed_columns, node_features
from graphbench.errors import check_one_of
from graphbench.layers.module_list import Modules
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch

# Categories per column in ogb.utils.features (ogb 1.3.6): atomic number, chirality, degree, formal charge, hydrogens,
# radical electrons, hybridisation, aromatic, in a ring. Up to ogb 1.3.5 chirality had 4 categories, not 5; every
# parameter count published by GraphGPS is from then.
ATOM_COLUMNS = (119, 5, 12, 12, 10, 6, 6, 2, 2)
CHIRALITY = 1


@register("Atom")
class Atom(FeatureEncoder):
    """Embedding of OGB's nine atom features, one table per feature.

    h_i = sum over the nine columns c of table_c[x_ic].

    Args:
        dim: width of the result.
        ogb_atom_vocabulary: number of chirality classes; 5 since ogb 1.3.6, 4 to load or count older models.

    Shape:
        x (N, 9) int64 -> (N, dim)
    """

    capturable: ClassVar[bool] = True
    columns: ClassVar[int | None] = len(ATOM_COLUMNS)

    def __init__(self, dim: FromContext[int], ogb_atom_vocabulary: FromContext[Literal[4, 5]] = 5) -> None:
        super().__init__()
        check_one_of((4, 5), ogb_atom_vocabulary=ogb_atom_vocabulary)
        sizes = list(ATOM_COLUMNS)
        sizes[CHIRALITY] = ogb_atom_vocabulary
        self.atom_emb: Modules[nn.Embedding] = Modules(nn.Embedding(size, dim) for size in sizes)
        for table in self.atom_emb:
            nn.init.xavier_uniform_(table.weight)

    def forward(self, batch: GraphBatch) -> Tensor:
        """(N, dim) first node states."""
        x = node_features(batch, "Atom")
        if x.dim() != 2 or x.shape[1] != len(self.atom_emb):
            raise ValueError(f"Atom reads {len(self.atom_emb)} columns, received x of shape {tuple(x.shape)}")
        return embed_columns(list(self.atom_emb), x, "Atom")
