"""Kernels that multiply operands of tf32 where torch's products may, and those that never do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from graphbench.ops import gpu_launch
from graphbench.ops.decay_attention import decay_attention
from graphbench.ops.embedding_sum import embedding_sum
from graphbench.ops.focal_attention import Relation, focal_attention
from graphbench.ops.gpu_launch import product_type
from graphbench.ops.linear import linear
from graphbench.ops.linear_attention import linear_attention
from graphbench.ops.softmax_attention import softmax_attention
from graphbench.ops.sparse_flow import sparse_flow
from graphbench.structures import Ragged
from tests.ops.ragged_inputs import (
    DEVICE,
    EPS,
    EPS_OF_TF32,
    SMALL_MAPS,
    assert_rounded_gradients,
    assert_within_budget,
    normal,
    set_kernels,
    uneven_seed,
    values_and_gradients,
)
from tests.ops.test_focal_attention import KINDS, rings

pytestmark = [
    pytest.mark.usefixtures("tf32_allowed"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # of lanes that are computed and thrown away
]

SIZES = [20, 0, 3, 1]
ROWS, HEADS = sum(SIZES), 2
SMALL = {size: dict.fromkeys((16, 32, 64, 128), (16, 32, 4)) for size in (2, 4, 8)}

Using = Callable[[str], Callable[..., Tensor]]


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles from 17 rows on."""
    monkeypatch.setattr(gpu_launch, "blocks_on", lambda device, kernels: SMALL)
    set_kernels(monkeypatch, "linear", **SMALL_MAPS)


def rows(*shapes: tuple[int, ...]) -> list[Tensor]:
    return [normal(*shape).detach().to(DEVICE).requires_grad_() for shape in shapes]


def maps() -> tuple[Using, list[Tensor]]:
    """With ReLU, whose zeros are those of torch's product."""
    return lambda backend: lambda *x: linear(*x, act="relu", backend=backend), rows((33, 20), (37, 20), (37,))


def softmax(width: int) -> tuple[Using, list[Tensor]]:
    ragged = Ragged.from_sizes(SIZES, DEVICE)
    return lambda backend: lambda *x: softmax_attention(*x, ragged, backend=backend), rows(*[(ROWS, HEADS, width)] * 3)


def focal() -> tuple[Using, list[Tensor]]:
    """With terms and values of relations, a bias, and heads that do not see everything."""
    ragged, near = Ragged.from_sizes(SIZES, DEVICE), rings(SIZES, token=True).to(DEVICE)
    pairs = near.distance.numel()
    index = torch.randint(KINDS, (pairs,), dtype=torch.int16).to(DEVICE)

    def using(backend: str) -> Callable[..., Tensor]:
        def run(q: Tensor, k: Tensor, v: Tensor, query: Tensor, value: Tensor, bias: Tensor) -> Tensor:
            relations = [Relation(index, query=query, value=value)]
            return focal_attention(
                q, k, v, ragged, near, max_hops=(None, 2), relations=relations, bias=bias, backend=backend
            )

        return run

    shapes = [*[(ROWS, HEADS, 18)] * 3, *[(KINDS, HEADS, 18)] * 2, (pairs, HEADS)]
    return using, rows(*shapes)


def decay() -> tuple[Using, list[Tensor]]:
    ragged = Ragged.from_sizes(SIZES, DEVICE)
    index = torch.randint(9, (ragged.num_pairs,), dtype=torch.uint8).to(DEVICE)
    inputs = [*rows(*[(ROWS, HEADS, 18)] * 3), torch.tensor([0.5, 3.0]).double().to(DEVICE).requires_grad_()]
    return lambda backend: lambda *x: decay_attention(*x[:3], ragged, index, x[3], decay=0.6, backend=backend), inputs


def kernelized(norm: str) -> tuple[Using, list[Tensor]]:
    ragged = Ragged.from_sizes(SIZES, DEVICE)
    inputs = rows(*[(ROWS, HEADS, 18)] * 3)
    return lambda backend: lambda *x: linear_attention(*x, ragged, norm=norm, backend=backend), inputs  # type: ignore[arg-type]


CASES: dict[str, Callable[[], tuple[Using, list[Tensor]]]] = {
    "linear": maps,
    "softmax": lambda: softmax(18),
    "softmax-wide": lambda: softmax(80),
    "focal": focal,
    "decay": decay,
    "linear_attention-frobenius": lambda: kernelized("frobenius"),
    "linear_attention-l2": lambda: kernelized("l2"),
}
of_operators = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@of_operators
def test_operands_of_tf32_where_torch_may_take_them(case: Callable[[], tuple[Using, list[Tensor]]]) -> None:
    """Outputs and gradients are as exact as such operands allow."""
    using, inputs = case()
    assert_within_budget(using("gpu"), using("reference"), inputs, draws=8, unit=EPS_OF_TF32)


@of_operators
def test_full_precision_is_what_it_was(case: Callable[[], tuple[Using, list[Tensor]]]) -> None:
    """The setting is read at every launch, and changes more than the order of sums would."""
    using, inputs = case()
    single, found = [x.detach().float().requires_grad_() for x in inputs], []
    for precision in ("highest", "high", "highest"):
        torch.set_float32_matmul_precision(precision)
        found.append(values_and_gradients(using("gpu"), single))
    for place, (exact, high, again) in enumerate(zip(*found, strict=True)):
        assert torch.equal(exact, again)
        is_sum = case is maps and place == 3  # the gradient of the bias
        assert is_sum or (high - exact).norm() > 20 * EPS * exact.norm()


@pytest.mark.parametrize("few", [2048, 0])
def test_linear_maps_and_their_gradients_term_by_term(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every entry is off by at most what cutting two operands of each of its products takes, 2^-10 for each."""
    set_kernels(monkeypatch, "linear", FEW=few)
    h, weight = (x.detach().float().requires_grad_() for x in rows((33, 20), (37, 20)))
    out = linear(h, weight, backend="gpu")
    c = uneven_seed(out, torch.float32)
    found = [out.detach(), *torch.autograd.grad(out, [h, weight], c)]
    c, h, weight = (x.detach().double() for x in (c, h, weight))
    for a, left, right in zip(found, (h, c, c.t()), (weight.t(), weight, h), strict=True):
        error = (a - left @ right).abs()
        assert (error <= (2 * EPS_OF_TF32 + 1e-5) * (left.abs() @ right.abs())).all()
        assert error.max() > 1e-5


def test_weights_of_a_row_sum_to_one() -> None:
    """They are cut off before they are summed: the mean of equal values is that value, as far as tf32 has it."""
    using, inputs = softmax(18)
    q, k, v = (x.detach().float() for x in inputs)
    expected = torch.full_like(v, 3.25)
    torch.testing.assert_close(using("gpu")(q, k, expected), expected, rtol=1e-5, atol=0)


def test_nan_stays() -> None:
    """Cutting bits off leaves it one; what rounds by adding to them does not."""
    for case in (lambda: softmax(18), decay, lambda: kernelized("frobenius")):
        using, inputs = case()
        single = [x.detach().float().requires_grad_() for x in inputs]
        for each in (0, 1, 2):
            broken = [x.detach() for x in single]
            broken[each] = torch.full_like(broken[each], float("nan"))
            assert using("gpu")(*broken).isnan().all()


def test_half_precision_is_what_it_was() -> None:
    using, inputs = softmax(18)
    assert_rounded_gradients(using("gpu"), using("reference"), [x.detach().bfloat16().requires_grad_() for x in inputs])


@pytest.mark.parametrize("operator", ["embedding_sum", "sparse_flow"])
def test_digits_that_decide_something_and_sums(operator: str) -> None:
    """Sums of embeddings and flows do not ask: their fp32 is the same to the bit."""
    ragged, index = Ragged.from_sizes(SIZES, DEVICE), torch.randint(40, (ROWS, 2)).to(DEVICE)
    lam = torch.tensor(1 / 70, device=DEVICE)
    if operator == "embedding_sum":
        inputs = rows((40, 24), (40, 24))
        run: Callable[..., Tensor] = lambda *x: embedding_sum(index, x, backend="gpu")  # noqa: E731
    else:
        inputs = rows(*[(ROWS, HEADS, 18)] * 5)
        run = lambda *x: sparse_flow(*x, ragged, lam=lam, backend="gpu")  # noqa: E731
    single, found = [x.detach().float().requires_grad_() for x in inputs], []
    for precision in ("highest", "high"):
        torch.set_float32_matmul_precision(precision)
        found.append(values_and_gradients(run, single))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_types_of_products() -> None:
    fp32, fp64 = (gpu_launch.triton_type(kind) for kind in (torch.float32, torch.float64))
    for precision, expected in (("highest", fp32), ("high", "tf32"), ("medium", "tf32")):
        torch.set_float32_matmul_precision(precision)
        assert product_type(torch.float32) == expected
        assert product_type(torch.float16) == fp32
        assert product_type(torch.float64) == fp64
