"""The ragged partition: its worked example, and buckets on arbitrary sizes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphbench.structures import Ragged

SIZES = st.lists(st.one_of(st.integers(0, 4), st.integers(0, 90)), max_size=12)
quick = settings(max_examples=60, deadline=None)


def test_worked_example() -> None:
    ragged = Ragged.from_sizes([2, 0, 3])
    assert ragged.ptr.tolist() == [0, 2, 2, 5]
    assert ragged.graph_id.tolist() == [0, 0, 2, 2, 2]
    assert ragged.size_tensor.tolist() == [2, 0, 3]
    assert (ragged.num_graphs, ragged.num_rows, ragged.max_size) == (3, 5, 3)


@quick
@given(SIZES)
@example([])
@example([0, 0])
@example([5, 5, 5])
@example([1, 90, 1])
def test_pointers_and_graph_ids(sizes: list[int]) -> None:
    ragged = Ragged.from_sizes(sizes)
    assert ragged.sizes == tuple(sizes)
    assert ragged.num_rows == sum(sizes)
    assert ragged.max_size == max(sizes, default=0)
    assert ragged.graph_id.tolist() == [g for g, n in enumerate(sizes) for _ in range(n)]
    assert ragged.ptr[-1] == sum(sizes)


@quick
@given(SIZES)
@example([])
@example([0])
@example([3, 0, 3, 3])
@example([64, 63, 65, 1, 2])
def test_buckets_hold_every_row_once(sizes: list[int]) -> None:
    ragged = Ragged.from_sizes(sizes)
    seen = []
    for bucket in ragged.buckets:
        assert bucket.rows.shape == (len(bucket.graphs), bucket.length)
        assert bucket.length == max(sizes[g] for g in bucket.graphs)
        mask = torch.ones_like(bucket.rows, dtype=torch.bool) if bucket.mask is None else bucket.mask
        assert mask.sum(1).tolist() == [sizes[g] for g in bucket.graphs]
        assert torch.equal(ragged.graph_id[bucket.rows], torch.tensor(bucket.graphs)[:, None].expand_as(bucket.rows))
        seen += bucket.rows[mask].tolist()
    assert sorted(seen) == list(range(sum(sizes)))


@quick
@given(SIZES, st.sampled_from([(), (3,), (2, 2)]))
@example([4, 4, 0], ())
@example([7], (3,))
def test_from_buckets_inverts_to_buckets(sizes: list[int], shape: tuple[int, ...]) -> None:
    ragged = Ragged.from_sizes(sizes)
    rows = torch.randn(sum(sizes), *shape, requires_grad=True)
    blocks = ragged.to_buckets(rows)
    if not blocks:
        assert sum(sizes) == 0
        with pytest.raises(ValueError, match="at least one"):
            ragged.from_buckets(blocks)
        return
    back = ragged.from_buckets(blocks)
    assert torch.equal(back, rows)
    (grad,) = torch.autograd.grad((back * back).sum(), rows)
    torch.testing.assert_close(grad, 2 * rows)


@quick
@given(SIZES)
def test_padding_repeats_the_first_row_of_its_own_graph(sizes: list[int]) -> None:
    ragged = Ragged.from_sizes(sizes)
    rows = torch.arange(sum(sizes))
    for bucket, block in zip(ragged.buckets, ragged.to_buckets(rows), strict=True):
        if bucket.mask is not None:
            first = ragged.ptr[list(bucket.graphs)][:, None].expand_as(block)
            assert torch.equal(block[~bucket.mask], first[~bucket.mask])


def test_equal_contiguous_graphs_need_no_gather() -> None:
    ragged, rows = Ragged.from_sizes([4, 4, 4]), torch.randn(12, 2)
    (bucket,), (block,) = ragged.buckets, ragged.to_buckets(rows)
    assert bucket.span == (0, 12)
    assert block.data_ptr() == rows.data_ptr()
    assert ragged.from_buckets([block]).data_ptr() == rows.data_ptr()


def test_to_the_same_device_is_the_same_object() -> None:
    ragged = Ragged.from_sizes([1, 2])
    assert ragged.to("cpu") is ragged


def test_negative_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="received -2"):
        Ragged.from_sizes([3, -2])


def test_wrong_number_of_blocks_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 2 blocks"):
        Ragged.from_sizes([100, 2]).from_buckets([torch.zeros(1, 100)])
