"""Reductions over the rows of every graph, and rows of graphs repeated for their nodes."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor

from graphbench.ops.segment import (
    bag_sum,
    segment_flip,
    segment_max,
    segment_mean,
    segment_repeat,
    segment_softmax,
    segment_sum,
)
from graphbench.structures import Ragged
from tests.ops.ragged_inputs import (
    AWKWARD,
    BACKEND,
    DEVICE,
    KERNELS,
    assert_same,
    assert_within_budget,
    normal,
    of_kernels,
    set_kernels,
)

OPERATORS = [segment_sum, segment_mean, segment_max, segment_softmax]
EVERY = pytest.mark.parametrize("operator", OPERATORS[:2] if KERNELS else OPERATORS, ids=lambda each: each.__name__)
SIZES = pytest.mark.parametrize("sizes", AWKWARD.values(), ids=AWKWARD)


@EVERY
@SIZES
@pytest.mark.parametrize("shape", [(), (80 if KERNELS else 3,), (2, 3)], ids=str)
def test_equals_reference(operator, sizes: list[int], shape: tuple[int, ...]) -> None:
    ragged = Ragged.from_sizes(sizes, DEVICE)
    x = normal(ragged.num_rows, *shape).detach().to(DEVICE).requires_grad_()
    assert_same(*(partial(operator, ragged=ragged, backend=backend) for backend in (BACKEND, "reference")), [x])


@EVERY
def test_gradcheck(operator) -> None:
    ragged = Ragged.from_sizes([3, 0, 1, 40])
    assert torch.autograd.gradcheck(lambda x: operator(x, ragged), [normal(44, 2)])


@EVERY
def test_error_in_float32(operator) -> None:
    """A plain running sum over 20000 rows would be far outside the budget; kernels sum 1024 at most."""
    ragged = Ragged.from_sizes([1024 if KERNELS else 20000, 3, 444, 0, 64], DEVICE)
    x = (normal(ragged.num_rows, 4).detach().to(DEVICE) + 3).requires_grad_()
    both = (partial(operator, ragged=ragged, backend=backend) for backend in (BACKEND, "reference"))
    assert_within_budget(*both, [x])


@SIZES
@pytest.mark.parametrize("shape", [(), (80 if KERNELS else 3,), (2, 3)], ids=str)
def test_repeated_rows_equal_the_reference(sizes: list[int], shape: tuple[int, ...]) -> None:
    ragged = Ragged.from_sizes(sizes, DEVICE)
    x = normal(ragged.num_graphs, *shape).detach().to(DEVICE).requires_grad_()
    both = (partial(segment_repeat, ragged=ragged, backend=backend) for backend in (BACKEND, "reference"))
    assert_same(*both, [x])


def test_repeated_rows_gradcheck() -> None:
    ragged = Ragged.from_sizes([3, 0, 1, 40])
    assert torch.autograd.gradcheck(lambda x: segment_repeat(x, ragged), [normal(4, 2)])


def test_repeated_rows_error_in_float32() -> None:
    """The gradient of a graph is a sum over its rows."""
    ragged = Ragged.from_sizes([1024, 3, 444, 0, 64], DEVICE)
    x = normal(ragged.num_graphs, 4).detach().to(DEVICE).requires_grad_()
    both = (partial(segment_repeat, ragged=ragged, backend=backend) for backend in (BACKEND, "reference"))
    assert_within_budget(*both, [x])


def test_repeated_rows_need_one_per_graph() -> None:
    with pytest.raises(ValueError, match=r"one row per graph \(2\), received shape \(3, 2\)"):
        segment_repeat(torch.zeros(3, 2), Ragged.from_sizes([1, 2]))


def test_by_hand() -> None:
    ragged, x = Ragged.from_sizes([2, 0, 1]), torch.tensor([[1.0], [3.0], [-5.0]])
    assert segment_repeat(x, ragged).flatten().tolist() == [1.0, 1.0, -5.0]
    assert segment_sum(x, ragged).flatten().tolist() == [4.0, 0.0, -5.0]
    assert segment_mean(x, ragged).flatten().tolist() == [2.0, 0.0, -5.0]
    assert segment_max(x, ragged).flatten().tolist() == [3.0, 0.0, -5.0]
    softmax = segment_softmax(x.log1p().nan_to_num(), ragged).flatten()
    torch.testing.assert_close(softmax, torch.tensor([1 / 3, 2 / 3, 1.0]))


def test_maximum_shares_its_gradient_among_ties() -> None:
    x = torch.tensor([[2.0], [2.0], [1.0], [7.0]], requires_grad=True)
    segment_max(x, Ragged.from_sizes([3, 1])).sum().backward()
    assert x.grad.flatten().tolist() == [0.5, 0.5, 0.0, 1.0]


def test_softmax_of_large_numbers() -> None:
    x = torch.tensor([1000.0, 1000.0, -1000.0])
    torch.testing.assert_close(segment_softmax(x, Ragged.from_sizes([2, 1])), torch.tensor([0.5, 0.5, 1.0]))


@EVERY
def test_wrong_rows_are_refused(operator) -> None:
    with pytest.raises(ValueError, match=r"one row per node \(3\), received shape \(4, 2\)"):
        operator(torch.zeros(4, 2), Ragged.from_sizes([1, 2]))


def test_a_batch_keeps_graphs_apart() -> None:
    x: Tensor = torch.randn(9, 2)
    x[4] = torch.nan
    for operator in OPERATORS[:3]:
        out = operator(x, Ragged.from_sizes([4, 1, 4]))
        assert out[[0, 2]].isfinite().all()
        assert out[1].isnan().all()


@of_kernels
def test_parts_of_wider_rows_and_large_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    ragged, wide = Ragged.from_sizes([40, 3], DEVICE), normal(43, 9).detach().to(DEVICE)
    expected = segment_sum(wide[:, 2:7], ragged, backend="reference")
    torch.testing.assert_close(segment_sum(wide[:, 2:7], ragged, backend="gpu"), expected)
    columns = wide[:2, 2:7]
    repeated = segment_repeat(columns, ragged, backend="reference")
    assert torch.equal(segment_repeat(columns, ragged, backend="gpu"), repeated)
    set_kernels(monkeypatch, "segment", LARGEST=39, sum_rows=None, spread_rows=None)
    torch.testing.assert_close(segment_sum(wide[:, 2:7], ragged, backend="gpu"), expected)
    assert torch.equal(segment_repeat(columns, ragged, backend="gpu"), repeated)


def test_half_precision_sums_in_float32() -> None:
    ragged = Ragged.from_sizes([500], DEVICE)
    x = torch.full((500, 2), 1.0078125, device=DEVICE, dtype=torch.bfloat16)
    assert segment_mean(x, ragged, backend=BACKEND).tolist() == [[1.0078125] * 2]


@pytest.mark.parametrize("backend", [BACKEND, "reference"])
def test_signs(backend: str) -> None:
    """One per graph and column; what is no number stays none, and nothing has a gradient."""
    ragged = Ragged.from_sizes([2, 0, 3], DEVICE)
    x = torch.arange(10.0, dtype=torch.float64, device=DEVICE).view(5, 2).requires_grad_()
    with torch.no_grad():
        x[3, 1] = torch.nan
    coin = torch.tensor([[1, 0], [1, 1], [0, 1]], device=DEVICE)
    out = segment_flip(x, coin, ragged, backend=backend)
    expected = [[0.0, -1.0], [2.0, -3.0], [-4.0, 5.0], [-6.0, torch.nan], [-8.0, 9.0]]
    torch.testing.assert_close(out.cpu(), torch.tensor(expected, dtype=torch.float64), equal_nan=True)
    assert not out.requires_grad
    nothing = Ragged.from_sizes([], DEVICE)
    assert segment_flip(x[:0], coin[:0], nothing, backend=backend).shape == (0, 2)


def test_wrong_coins_are_refused() -> None:
    with pytest.raises(ValueError, match=r"coin must be \(2, 4\) for x \(N, C\), received \(2, 3\) for \(3, 4\)"):
        segment_flip(torch.zeros(3, 4), torch.ones(2, 3, dtype=torch.int64), Ragged.from_sizes([1, 2]))


@pytest.mark.parametrize("weighted", [False, True], ids=["sums", "weighted"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, *([torch.bfloat16] if KERNELS else [])], ids=str)
def test_bags_of_any_length(weighted: bool, dtype: torch.dtype) -> None:
    """None, one, many more than a tile takes at once, and columns of wider rows; sums are made in float32 at least."""
    lengths = [3, 0, 1, 150, 33, 0]
    ptr = torch.tensor([0, *lengths], device=DEVICE).cumsum(0)
    index = torch.randint(7, (sum(lengths),), generator=torch.Generator().manual_seed(0)).to(DEVICE)
    wide = torch.randn(7, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).to(DEVICE, dtype)
    rows = wide[:, 3:23] if KERNELS else wide[:, 3:23].contiguous()
    weight = torch.linspace(-1, 1, len(index), dtype=torch.float64, device=DEVICE).to(dtype) if weighted else None
    out = bag_sum(rows, index, ptr, weight, backend=BACKEND)
    terms = rows.double()[index] * (1.0 if weight is None else weight.double()[:, None])
    exact = torch.stack([of_bag.sum(0) for of_bag in terms.split(lengths)])
    rounding = torch.finfo(torch.float32 if dtype == torch.bfloat16 else dtype).eps * max(lengths) * terms.abs().sum(0)
    stored = torch.finfo(dtype).eps * exact.abs()
    assert out.dtype == dtype
    assert ((out.double() - exact).abs() <= rounding + stored).all()


def test_no_bags() -> None:
    none = torch.zeros(0, dtype=torch.int64, device=DEVICE)
    rows = torch.ones(3, 4, device=DEVICE)
    assert bag_sum(rows, none, torch.zeros(1, dtype=torch.int64, device=DEVICE), backend=BACKEND).shape == (0, 4)


def test_more_columns_than_a_launch_has_programs_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ptr, index = torch.tensor([0, 2, 3], device=DEVICE), torch.tensor([1, 0, 1], device=DEVICE)
    rows = torch.randn(2, 200, device=DEVICE)
    expected = bag_sum(rows, index, ptr, backend=BACKEND)
    monkeypatch.setattr("graphbench.ops.segment.gpu.MOST_PROGRAMS", 1)
    torch.testing.assert_close(bag_sum(rows, index, ptr, backend=BACKEND), expected)


def test_what_is_derived_in_inference_serves_training() -> None:
    ragged = Ragged.from_sizes([3, 2, 9], DEVICE)
    rows = torch.randn(3, 4, device=DEVICE)
    with torch.inference_mode():
        segment_repeat(rows, ragged, backend=BACKEND)
    trained = rows.clone().requires_grad_()
    segment_repeat(trained, ragged, backend=BACKEND).sum().backward()
    torch.testing.assert_close(trained.grad, torch.tensor([3.0, 2.0, 9.0], device=DEVICE)[:, None].expand(3, 4))
