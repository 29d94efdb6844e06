"""Padded layouts of arbitrary sizes: every row in one cell, tiles that cover all pairs, gradients of real rows only."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphbench.structures import PaddedLayout, Ragged

SIZES = st.lists(st.one_of(st.integers(0, 4), st.integers(0, 90)), max_size=12)
quick = settings(max_examples=60, deadline=None)


def layouts(sizes: list[int]) -> list[PaddedLayout]:
    ragged = Ragged.from_sizes(sizes)
    return [ragged.layout, ragged.layout_for_pairs(2, 1 << 12)]


def test_worked_example() -> None:
    layout = Ragged.from_sizes([2, 0, 3]).layout
    (bucket,) = layout.buckets
    assert layout.row_of_cell.tolist() == [0, 1, 0, 2, 3, 4]
    assert layout.cell_of_row.tolist() == [0, 1, 3, 4, 5]
    assert (bucket.graphs, bucket.length) == ((0, 2), 3)
    assert bucket.mask.tolist() == [[True, True, False], [True, True, True]]
    assert bucket.padding(torch.float64).flatten().tolist() == [0, 0, -torch.inf, 0, 0, 0]


@quick
@given(SIZES)
@example([])
@example([0])
@example([3, 0, 3, 3])
@example([64, 63, 65, 1, 2])
def test_cells_hold_every_row_once_and_padding_repeats_the_first_row_of_its_graph(sizes: list[int]) -> None:
    ragged = Ragged.from_sizes(sizes)
    for layout in layouts(sizes):
        packed, seen = layout.pack(torch.arange(ragged.num_rows)), []
        for bucket in layout.buckets:
            rows = bucket.view(packed)
            assert rows.shape == (len(bucket.graphs), bucket.length)
            assert bucket.length == max(sizes[graph] for graph in bucket.graphs)
            mask = torch.ones_like(rows, dtype=torch.bool) if bucket.mask is None else bucket.mask
            assert mask.sum(1).tolist() == [sizes[graph] for graph in bucket.graphs]
            first = ragged.ptr[list(bucket.graphs)][:, None]
            assert torch.equal(rows, torch.where(mask, first + torch.arange(bucket.length), first))
            seen += rows[mask].tolist()
        assert sorted(seen) == list(range(ragged.num_rows))
        assert torch.equal(layout.unpack(packed), torch.arange(ragged.num_rows))


@quick
@given(SIZES, st.sampled_from([(), (3,), (2, 2)]))
@example([4, 4, 0], ())
@example([7], (3,))
def test_join_inverts_split(sizes: list[int], shape: tuple[int, ...]) -> None:
    rows = torch.randn(sum(sizes), *shape, requires_grad=True)
    for layout in layouts(sizes):
        blocks = layout.split(rows)
        if not blocks:
            assert sum(sizes) == 0
            with pytest.raises(ValueError, match="at least one"):
                layout.join(blocks)
            continue
        back = layout.join(blocks)
        assert torch.equal(back, rows)
        (grad,) = torch.autograd.grad((back * back).sum(), rows)
        torch.testing.assert_close(grad, 2 * rows)


def test_padding_has_no_gradient() -> None:
    """Neither to the rows that it repeats nor from what is joined."""
    ragged, rows = Ragged.from_sizes([2, 4]), torch.randn(6, 3, requires_grad=True)
    (block,) = ragged.to_buckets(rows)
    assert torch.equal(torch.autograd.grad(block.sum(), rows)[0], torch.ones(6, 3))
    block = block.detach().requires_grad_()
    ragged.from_buckets([block]).sum().backward()
    assert torch.equal(block.grad, ragged.buckets[0].mask[:, :, None].expand(2, 4, 3).float())


@pytest.mark.parametrize("sizes", [[4, 4, 4], [5]])
def test_equal_contiguous_graphs_need_no_gather(sizes: list[int]) -> None:
    rows = torch.randn(sum(sizes), 2)
    for layout in layouts(sizes):
        (block,) = layout.split(rows)
        assert block.data_ptr() == rows.data_ptr()
        assert layout.join([block]).data_ptr() == rows.data_ptr()


def test_heads_come_first_and_are_put_back() -> None:
    ragged, rows = Ragged.from_sizes([3, 2]), torch.randn(5, 4, 7)
    layout = ragged.layout
    packed = layout.pack(rows)
    (bucket,) = layout.buckets
    block, back = bucket.heads_first(packed), torch.empty_like(packed)
    assert torch.equal(block[4 + 1, 1], rows[4, 1])  # graph 1, head 1, its second row
    bucket.put(block, back)
    assert torch.equal(back, packed)


@quick
@given(st.integers(1, 200), st.integers(1, 3), st.integers(1, 5), st.sampled_from([1, 100, 3000, 1 << 18]))
def test_tiles_cover_every_pair_once(size: int, count: int, heads: int, pairs: int) -> None:
    for bucket in Ragged.from_sizes([size] * count).layout_for_pairs(heads, pairs).buckets:
        covered = torch.zeros(len(bucket.graphs) * heads, size, dtype=torch.int64)
        for batch, rows in bucket.tiles(heads, pairs):
            covered[batch, rows] += 1
            tile = (batch.stop - batch.start) * (rows.stop - rows.start) * size
            assert tile <= max(pairs, 64 * size) or len(bucket.graphs) > 1
        assert covered.eq(1).all()


@quick
@given(SIZES)
def test_buckets_hold_a_bounded_number_of_pairs(sizes: list[int]) -> None:
    heads, pairs = 3, 10_000
    for bucket in Ragged.from_sizes(sizes).layout_for_pairs(heads, pairs).buckets:
        assert len(bucket.graphs) * heads * bucket.length**2 <= pairs or len(bucket.graphs) == 1


def test_pairs_are_numbered_graph_after_graph() -> None:
    ragged = Ragged.from_sizes([2, 0, 3])
    assert (ragged.pair_starts, ragged.num_pairs) == ((0, 4, 4, 13), 13)
    assert ragged.pair_ptr.tolist() == [0, 4, 4, 13]
    index = ragged.pair_index(ragged.buckets[0])
    assert index[0].tolist() == [[0, 1, 0], [2, 3, 0], [0, 0, 0]]
    assert index[1].tolist() == [[4 + 3 * i + j for j in range(3)] for i in range(3)]


def test_layouts_are_made_once() -> None:
    ragged = Ragged.from_sizes([2, 3])
    assert ragged.layout is ragged.layout
    assert ragged.layout_for_pairs(1, 10) is ragged.layout_for_pairs(1, 10)
    assert ragged.layout_for_pairs(1, 10) is not ragged.layout_for_pairs(2, 10)
    assert ragged.layout_for_pairs(1, 10) is not ragged.layout_for_pairs(1, 100)


@pytest.mark.parametrize("width", [4, 16, 20, 32])
@pytest.mark.parametrize("sizes", [[3], [3, 2]], ids=["one graph", "two graphs"])
def test_operands_have_channels_first_where_products_are_faster(sizes: list[int], width: int) -> None:
    """In memory, for widths that are no whole vectors."""
    layout = Ragged.from_sizes(sizes).layout
    (bucket,) = layout.buckets
    packed = torch.randn(len(sizes) * 3, 2, width)
    operands = bucket.operands(packed)
    assert torch.equal(operands, bucket.heads_first(packed))
    assert (operands.stride(2) == 1) == (width % 16 == 0)


@pytest.mark.parametrize("sizes", [[3], [3, 2]], ids=["one graph", "two graphs"])
def test_what_is_written_into_a_block_is_in_the_packed_rows(sizes: list[int]) -> None:
    layout = Ragged.from_sizes(sizes).layout
    (bucket,) = layout.buckets
    packed = torch.zeros(len(sizes) * 3, 2, 4)
    block = bucket.block(packed)
    block.copy_(torch.randn(block.shape))
    bucket.put_block(block, packed)
    assert torch.equal(bucket.heads_first(packed), block)
