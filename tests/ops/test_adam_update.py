"""Updates of parameters by Adam and AdamW."""

from __future__ import annotations

import dataclasses
import math
from itertools import chain

import pytest
import torch
from torch import Tensor

from graphbench.ops.adam_update import AdamRule, adam_update
from tests.ops.ragged_inputs import BACKEND, DEVICE, EPS, of_kernels, set_kernels

# On both sides of a block's end, and nothing at all: alone in a launch, and before and behind others.
SHAPES = [(0,), (1023,), (32, 32), (1025,), (), (0, 3), (3, 2, 4), (2500,), (0,), (0, 1), (2, 0), (0,), (0, 7), (5,)]
RULES = {
    "adam": AdamRule(0.01),
    "decay": AdamRule(0.01, (0.8, 0.99), 1e-6, 0.1),
    "adamW": AdamRule(0.01, weight_decay=0.1, decoupled=True),
    "forgetful": AdamRule(0.01, (0.0, 0.0), 1e-3),
    "remembering": AdamRule(0.01, (0.999, 0.99999)),
}


@pytest.fixture(autouse=True)
def _several_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    set_kernels(monkeypatch, "adam_update", MOST=4, FILLED=4, GROUP=2)


def tensors(shapes: list[tuple[int, ...]] = SHAPES, taken: int = 5) -> list[list[Tensor]]:
    """Parameters, gradients, averages of these and of their squares, and steps: every parameter has its own number."""
    generator = torch.Generator().manual_seed(0)
    values = [[torch.randn(shape, generator=generator) for shape in shapes] for _ in range(4)]
    values[3] = [x.square() for x in values[3]]
    steps = [torch.tensor(float(taken * i)) for i in range(len(shapes))]
    return [[x.to(DEVICE) for x in each] for each in (*values, steps)]


def copies(of: list[list[Tensor]], dtype: torch.dtype = torch.float32) -> list[list[Tensor]]:
    return [[x.to(dtype, copy=True) for x in each] for each in of]


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("name", RULES)
def test_error_is_of_a_few_roundings(name: str, scaled: bool) -> None:
    """Against the formula in float64, of every number and by the size of the terms that it is a sum of."""
    rule, scale = RULES[name], torch.tensor(3.0, device=DEVICE) if scaled else None
    before = tensors()
    ours, exact = copies(before), copies(before, torch.float64)
    adam_update(*ours, rule, scale, backend=BACKEND)
    adam_update(*exact, rule, scale, backend="reference")
    for place in range(len(SHAPES)):
        p, g, m, v, t = (each[place].double() for each in ours)
        p_0, _, m_0, *_ = (each[place].double() for each in before)
        p_1, g_1, m_1, v_1, t_1 = (each[place] for each in exact)
        assert t == t_1
        assert_close(g, g_1, g_1)  # a quotient
        size = g_1.abs() + (0.0 if rule.decoupled else rule.weight_decay) * p_0.abs()
        terms = rule.betas[0] * m_0.abs() + (1 - rule.betas[0]) * size
        assert_close(m, m_1, 4 * terms)
        assert_close(v, v_1, 4 * (v_1 + (1 - rule.betas[1]) * size.square()))
        bias_1, bias_2 = (1 - beta ** float(t) for beta in rule.betas)
        taken = rule.lr / bias_1 * terms / ((v_1 / bias_2).sqrt() + rule.eps)
        assert_close(p, p_1, 3 * p_0.abs() + 16 * taken)  # decay: factor, product and difference


def assert_close(ours: Tensor, exact: Tensor, size: Tensor) -> None:
    """Within half an eps, the largest rounding, of ``size``."""
    assert ((ours - exact).abs() <= size.abs() * EPS / 2 + torch.finfo(torch.float32).tiny).all()


@pytest.mark.parametrize("name", ["adam", "decay", "adamW"])
def test_steps_are_those_of_pytorch(name: str) -> None:
    """Ten from the beginning, by the formula as PyTorch has it on the CPU, operation by operation."""
    rule = RULES[name]
    ours = [[torch.zeros_like(x) for x in each] if i > 1 else each for i, each in enumerate(tensors())]
    theirs = [torch.nn.Parameter(x.double().cpu()) for x in ours[0]]
    of_torch = torch.optim.AdamW if rule.decoupled else torch.optim.Adam
    optimizer = of_torch(theirs, rule.lr, rule.betas, rule.eps, rule.weight_decay, foreach=False, fused=False)  # type: ignore[arg-type]
    for _ in range(10):
        adam_update(*ours, rule, backend=BACKEND)
        for parameter, gradient in zip(theirs, ours[1], strict=True):
            parameter.grad = gradient.double().cpu()
        optimizer.step()
    for x, y in zip(ours[0], theirs, strict=True):
        # Ten sums, each of a parameter and a step of the rate, which has some ten roundings.
        torch.testing.assert_close(x.double().cpu(), y.detach(), rtol=10 * EPS, atol=10 * 16 * rule.lr * EPS)


def test_a_rate_on_the_device_is_the_number() -> None:
    """Bit for bit: a recorded step reads one, a step that is not recorded is given the other."""
    number, on_device = tensors(), tensors()
    rate = torch.tensor(0.003, device=DEVICE)
    for _ in range(3):
        adam_update(*number, AdamRule(0.003), backend=BACKEND)
        adam_update(*on_device, AdamRule(rate), backend=BACKEND)
    compared = zip(number[0], on_device[0], strict=True)
    # Torch's operation on the CPU reads the number in float64.
    assert all(torch.equal(x, y) if BACKEND == "gpu" else torch.allclose(x, y) for x, y in compared)


@pytest.mark.parametrize("t", [1.0, 2.0, 30.0, 1e3, 1e6])
@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9, 0.999, 0.999999])
def test_bias_is_corrected_to_the_last_digits(beta: float, t: float) -> None:
    """With m = 1 and v = 1 the step is that of the corrections alone; in fp32 1 - 0.999999 is 1.0133e-6."""
    for betas in ((beta, 0.0), (0.0, beta)):
        one = [[torch.ones(1, device=DEVICE)] for _ in range(4)]
        one[0][0].zero_()
        adam_update(*one, [torch.tensor(t - 1, device=DEVICE)], AdamRule(1.0, betas, 1e-30), backend=BACKEND)
        expected = -math.sqrt(1 - betas[1] ** t) / (1 - betas[0] ** t)
        assert one[0][0].item() == pytest.approx(expected, rel=8 * EPS)


@pytest.mark.parametrize("kind", ["double", "columns"])
def test_other_parameters_are_updated_by_torch(kind: str) -> None:
    def made() -> list[list[Tensor]]:
        values = tensors([(3, 4), (5, 2)])
        if kind == "double":
            return [*copies(values[:4], torch.float64), values[4]]
        return [*([x.t().contiguous().t() for x in each] for each in values[:4]), values[4]]

    ours, expected = made(), made()
    adam_update(*ours, RULES["decay"], backend=BACKEND)
    adam_update(*expected, RULES["decay"], backend="reference")
    for x, y in zip(chain(*ours), chain(*expected), strict=True):
        torch.testing.assert_close(x, y)


def test_nothing_to_update() -> None:
    adam_update([], [], [], [], [], AdamRule(0.1), backend=BACKEND)


@of_kernels
def test_what_lies_behind_a_parameter_is_left_alone() -> None:
    rooms = [torch.full((2000,), 7.0, device=DEVICE) for _ in range(4)]
    parts = [[room[3:1500]] for room in rooms]  # from no multiple of 16 bytes on
    adam_update(*parts, [torch.zeros((), device=DEVICE)], AdamRule(0.1), torch.ones((), device=DEVICE), backend=BACKEND)
    for room in rooms:
        assert (room[:3] == 7).all()
        assert (room[1500:] == 7).all()
    assert (rooms[0][3:1500] < 7).all()


def test_arguments_that_are_refused() -> None:
    of_two = tensors([(2,), (3,)])
    with pytest.raises(ValueError, match=r"a gradient, two averages and a number of updates, received \[2, 1, 2"):
        adam_update(of_two[0], of_two[1][:1], *of_two[2:], AdamRule(0.1))
    rule = dataclasses.replace(AdamRule(0.1), betas=(0.9, 1.0))
    with pytest.raises(ValueError, match=r"betas must be in \[0, 1\), received \(0.9, 1.0\)"):
        adam_update(*of_two, rule)


@of_kernels
def test_parameters_too_large_to_count_are_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    set_kernels(monkeypatch, "adam_update", LARGEST=2499, adam_blocks=None)
    before = tensors()
    ours, theirs = copies(before), copies(before)
    adam_update(*ours, RULES["adam"], backend="gpu")
    adam_update(*theirs, RULES["adam"], backend="cpu")
    for mine, others in zip(chain(*ours), chain(*theirs), strict=True):
        assert torch.equal(mine, others)


def test_gradients_of_other_strides_than_their_parameter() -> None:
    """PyTorch's fused operation goes through both memories in order, as if they were alike."""
    gradient = torch.arange(15.0, device=DEVICE).view(3, 5) - 7
    parameter, first, second = (torch.zeros(5, 3, device=DEVICE).t() for _ in range(3))
    rule = AdamRule(lr=0.1)
    adam_update([parameter], [gradient], [first], [second], [torch.zeros((), device=DEVICE)], rule, backend=BACKEND)
    torch.testing.assert_close(first, (1 - rule.betas[0]) * gradient)
