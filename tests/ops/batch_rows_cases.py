"""A small data set, of which batches are cut out."""

from __future__ import annotations

from dataclasses import replace

import torch

from graphbench.ops.batch_rows import Field

SIZES, EDGES, PAIRS = [2, 3, 1, 0, 4], [3, 4, 0, 0, 5], [4, 9, 1, 0, 16]
GRAPHS = [[1, 0], [4, 3, 2, 1], [3], [2, 2, 2, 4]]


def data(device: str = "cpu") -> tuple[torch.Tensor, list[Field]]:
    """Five graphs, and every kind of field."""
    generator = torch.Generator().manual_seed(0)
    ptr = torch.stack([torch.tensor([0, *sizes]).cumsum(0) for sizes in (SIZES, EDGES, PAIRS)])
    owner = torch.arange(5).repeat_interleave(torch.tensor(EDGES))
    ends = (torch.rand(2, sum(EDGES), generator=generator) * torch.tensor(SIZES)[owner]).to(torch.int32)
    order = torch.stack([torch.cat([each.argsort() for each in ends[end].split(EDGES)]) for end in (1, 0)])
    fields = [
        Field(torch.randn(sum(SIZES), 5, generator=generator)),
        Field(torch.randint(100, (sum(SIZES), 2), generator=generator).to(torch.int16), widen=True),
        Field(torch.randn(sum(SIZES), 2, 3, generator=generator, dtype=torch.float64)),
        Field(torch.randint(2, (sum(EDGES),), generator=generator).bool(), level=1),
        Field(torch.randint(255, (sum(PAIRS),), generator=generator).to(torch.uint8), level=2),
        Field(ends, "ends", 1),
        Field(order.to(torch.int32), "order", 1),
        Field(torch.randn(5, 40, generator=generator), "graphs"),
        Field(torch.arange(5, dtype=torch.int8), "graphs", widen=True),
    ]
    return ptr.to(device), [replace(field, source=field.source.to(device)) for field in fields]
