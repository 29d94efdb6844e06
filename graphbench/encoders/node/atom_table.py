"""OGB's nine atom columns in one table."""

from __future__ import annotations

from itertools import accumulate
from typing import ClassVar

import torch
from torch import Tensor, nn

from graphbench.encoders.contract import FeatureEncoder
from graphbench.encoders.inputs import embed, node_features
from graphbench.encoders.node.atom import ATOM_COLUMNS
from graphbench.errors import check_at_least
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("AtomTable")
class AtomTable(FeatureEncoder):
    """Embedding of OGB's nine atom features in one table.

    h_i = sum over the nine columns c of table[first_c + x_ic]: :class:`Atom` with all columns in one table.

    The same function as ``Atom``, initialised as torch's ``Embedding``. The models of FFGT
    (https://arxiv.org/abs/2311.04653) have such a table; its printed parameter counts are met with 512 rows, of which
    atoms can reach 174.

    Args:
        dim: width of the result.
        num_types: rows of the table (``dataset.node_encoder_num_types``), 174 or more.

    Shape:
        x (N, 9) int64 -> (N, dim)
    """

    capturable: ClassVar[bool] = True
    columns: ClassVar[int | None] = len(ATOM_COLUMNS)

    def __init__(self, dim: FromContext[int], num_types: FromContext[int]) -> None:
        super().__init__()
        check_at_least(sum(ATOM_COLUMNS), num_types=num_types)
        self.atom_emb = nn.Embedding(num_types, dim)
        first = [0, *accumulate(ATOM_COLUMNS)]
        self.register_buffer("first", torch.as_tensor(first[:-1]), persistent=False)
        self.first: Tensor

    def forward(self, batch: GraphBatch) -> Tensor:
        """(N, dim) first node states."""
        x = node_features(batch, "AtomTable")
        if x.dim() != 2 or x.shape[1] != len(ATOM_COLUMNS):
            raise ValueError(f"AtomTable reads {len(ATOM_COLUMNS)} columns, received x of shape {tuple(x.shape)}")
        return embed(self.atom_emb, x + self.first, "AtomTable").sum(1)
