"""A small data set and the comparison of batches cut out of it, for all implementations."""

from __future__ import annotations

import torch

from graphbench.ops.batch_rows import Field, Room, batch_rows

SIZES, EDGES, PAIRS = [2, 3, 1, 0, 4], [3, 4, 0, 0, 5], [4, 9, 1, 0, 16]
GRAPHS = [[1, 0], [4, 3, 2, 1], [3], [2, 2, 2, 4]]


def data() -> tuple[torch.Tensor, list[Field]]:
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
    return ptr, fields


def assert_equal_rows(backend: str) -> None:
    """Compares with the loop over graphs, also where there is no padding edge and where graphs stay empty."""
    ptr, fields = data()
    for graphs in GRAPHS:
        most = [int(sum(ptr[level, g + 1] - ptr[level, g] for g in graphs)) for level in range(3)]
        for extra in (0, 1, 7):
            room = Room((most[0] + extra + 1, most[1] + extra, most[2] + 3 * extra), 4, 3)
            numbers = torch.tensor([*graphs, *[-1] * extra])
            expected = batch_rows(numbers, ptr, fields, room, backend="reference")
            received = batch_rows(numbers, ptr, fields, room, backend=backend)
            assert torch.equal(received.offsets, expected.offsets)
            assert int(received.num_graphs) == len(graphs)
            assert torch.equal(received.real_graphs, expected.real_graphs)
            assert all(torch.equal(*each) for each in zip(received.real, expected.real, strict=True))
            assert backend == "cpu" or (received.lists is not None and expected.lists is not None)
            if received.lists is not None and expected.lists is not None:
                assert all(torch.equal(*each) for each in zip(received.lists, expected.lists, strict=True))
            for number, (one, other) in enumerate(zip(received.fields, expected.fields, strict=True)):
                assert one.dtype == other.dtype
                assert torch.equal(one, other), f"field {number}"
