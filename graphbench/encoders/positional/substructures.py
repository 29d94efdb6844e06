"""Embedded counts of substructures around nodes and edges: GSN's identifiers (https://arxiv.org/abs/2006.09252)."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from graphbench.encoders.contract import ColumnEncoder
from graphbench.encoders.inputs import embed_columns
from graphbench.errors import ArgumentError, check_at_least
from graphbench.layers.module_list import Modules
from graphbench.registry import register
from graphbench.structures import GraphBatch
from graphbench.structures.substructure_kinds import substructure_columns


@register("Substructures")
class Substructures(ColumnEncoder):
    r"""Structural encoding by the counts of cycles and cliques that a node lies on.

    pe_i = the sum over kinds H of substructures of T_H[min(c_i^H, rows_H - 1)].

    c_i^H: cycles (cliques) of one size that i lies on, as the transform ``SubstructureCounts`` defines them; T_H: a
    learned table, from Glorot and Bengio's uniform numbers.

    Args:
        dim_pe: width of the encoding.
        cycles: nodes of the largest cycle; 0: none.
        cliques: nodes of the largest clique; 0: none.
        vocabulary: rows of the table of each kind, cycles first, from 3 nodes on; a single number: of all tables.

    Shape:
        counts (N, kinds) -> (N, dim_pe)

    Differences from the released code: it gives every count that occurs in the data set, test graphs included, a row of
    its own; here larger counts than a table has rows share its last. ogbg-molhiv has the counts 0 .. 4 at most for
    cycles of up to 6 nodes, so that a ``vocabulary`` of [3, 3, 5, 5] for edges is the same.
    """

    capturable: ClassVar[bool] = True
    transform: ClassVar[str | None] = "SubstructureCounts"
    limits: Tensor

    def __init__(
        self,
        dim_pe: int,
        *,
        cycles: int = 6,
        cliques: int = 0,
        vocabulary: list[int] = [8],  # noqa: B006 - read only
    ) -> None:
        super().__init__()
        kinds, name = substructure_columns(cycles, cliques), self.registered_name
        check_at_least(1, dim_pe=dim_pe)
        if len(vocabulary) not in (1, kinds) or min(vocabulary) < 1:
            raise ArgumentError(
                "vocabulary",
                f"{name}: vocabulary must be one number of rows, or one for each of the {kinds} kinds of "
                f"substructures, each at least 1, received {list(vocabulary)}",
            )
        rows = list(vocabulary) * (kinds if len(vocabulary) == 1 else 1)
        self.tables: Modules[nn.Embedding] = Modules(nn.Embedding(count, dim_pe) for count in rows)
        for table in self.tables:
            nn.init.xavier_uniform_(table.weight)
        self.register_buffer("limits", torch.tensor(rows) - 1, persistent=False)

    def forward(self, batch: GraphBatch) -> Tensor:
        """(N, dim_pe) encodings of the nodes, (E, dim_pe) of the edges."""
        tables = list(self.tables)
        counts = self.encoding(batch, "counts", len(tables))
        return embed_columns(tables, torch.minimum(counts.long(), self.limits), self.registered_name)


@register("SubstructuresEdge")
class SubstructuresEdge(Substructures):
    """Structural encoding by the counts of cycles and cliques that an edge lies on.

    Equation and arguments of :class:`Substructures`, with pe_ij in place of pe_i.

    Shape:
        counts (E, kinds) -> (E, dim_pe)
    """

    capturable: ClassVar[bool] = True
    transform: ClassVar[str | None] = "EdgeSubstructureCounts"
    level: ClassVar[Literal["node", "edge"]] = "edge"
