"""Entries for cu_seqlens and nested tensors: the same rows and gradients as PyTorch's own attention on them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from graphbench.ops.jagged import from_cu_seqlens, from_nested, to_nested
from graphbench.ops.softmax_attention import softmax_attention
from graphbench.structures import Ragged

SIZES = (3, 1, 63, 20)


def _rows(seed: int) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(sum(SIZES), 2, 8, generator=draw, dtype=torch.float64)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_cumulated_lengths(dtype: torch.dtype) -> None:
    ragged = from_cu_seqlens(torch.tensor([0, 3, 3, 10], dtype=dtype))
    assert ragged.sizes == (3, 0, 7)
    assert ragged.ptr.dtype == torch.int64
    assert from_cu_seqlens(torch.zeros(1, dtype=dtype)).num_graphs == 0
    for wrong, message in (
        (torch.tensor([1, 2]), "begin with 0, received 1"),
        (torch.tensor([0.0, 2.0]), r"int32 or int64, received \(2,\) of torch.float32"),
        (torch.tensor([0, 3, 2]), "must not be negative, received -1"),
        (torch.empty(0, dtype=torch.int64), r"received \(0,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            from_cu_seqlens(wrong)


def test_attention_on_nested_tensors_is_that_of_pytorch() -> None:
    parts = [list(_rows(seed).split(SIZES)) for seed in range(3)]
    inputs = [torch.nested.nested_tensor(each, layout=torch.jagged).requires_grad_() for each in parts]
    (q, k, v), ragged = from_nested(*inputs)
    out = to_nested(softmax_attention(q, k, v, ragged), ragged)
    assert out.is_nested
    weight = _rows(7)
    grads = torch.autograd.grad((out.values() * weight).sum(), inputs)

    rows = [_rows(seed).requires_grad_() for seed in range(3)]
    expected = torch.cat(
        [
            torch.nn.functional.scaled_dot_product_attention(*(part.transpose(0, 1) for part in of_graph)).transpose(
                0, 1
            )
            for of_graph in zip(*(each.split(SIZES) for each in rows), strict=True)
        ]
    )
    torch.testing.assert_close(out.values(), expected)
    for ours, theirs in zip(grads, torch.autograd.grad((expected * weight).sum(), rows), strict=True):
        torch.testing.assert_close(ours.values(), theirs)


def test_other_tensors_are_refused() -> None:
    nested = torch.nested.nested_tensor(list(_rows(0).split(SIZES)), layout=torch.jagged)
    other = torch.nested.nested_tensor(list(_rows(0).split(SIZES[::-1])), layout=torch.jagged)
    with pytest.raises(ValueError, match="different lengths"):
        from_nested(nested, other)
    with pytest.raises(ValueError, match="received none"):
        from_nested()
    for wrong in (_rows(0), nested.transpose(1, 2)):
        with pytest.raises(ValueError, match=r"expected nested tensors \(B, n, \.\.\.\)"):
            from_nested(wrong)
    with pytest.raises(ValueError, match=r"rows must be \(87, \.\.\.\)"):
        to_nested(_rows(0)[1:], Ragged.from_sizes(SIZES))
