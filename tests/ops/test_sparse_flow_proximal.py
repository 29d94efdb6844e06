"""The paper's iteration: one step by hand, convergence to the exact flow, gradients through the steps."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from graphbench.ops.sparse_flow import proximal, reference, sparse_flow
from graphbench.structures import Ragged
from tests.ops.ragged_inputs import normal


def well_conditioned(n: int = 8, spread: float = 0.5) -> tuple[Tensor, Tensor, Tensor]:
    s, t = (spread * torch.randn(4, n, n, dtype=torch.float64) for _ in range(2))
    return s, t, torch.tensor(1 / n, dtype=torch.float64)


def test_one_step_by_hand() -> None:
    """n = 2, r = 1/2, f = (3/4, 1/4), lam = 1/2, alpha = 1: the step size is 1 / 2.5, z starts at (1/2, 1/2).

    The gradient is r z + alpha (sum z - 1) = 1/4, so y = 1/2 - 0.1 = 0.4, shrunk by 0.4 * lam f = (0.15, 0.05).
    """
    s, t = torch.zeros(1, 2), torch.tensor([[math.log(3.0), 0.0]])
    z = proximal.solve(s, t, torch.tensor(0.5), 1.0, 1, "safe")
    torch.testing.assert_close(z, torch.tensor([[0.25, 0.35]]))


def test_negative_values_are_shrunk_towards_zero() -> None:
    """Eq. 10 as printed would make them 0; the proximal operator of |z| keeps their sign."""
    y, threshold = torch.tensor([-0.5, -0.1, 0.3]), torch.tensor([0.2, 0.2, 0.2])
    torch.testing.assert_close(proximal.shrink(y, threshold), torch.tensor([-0.3, 0.0, 0.1]))


@pytest.mark.parametrize(("step", "iters"), [("safe", 4000), ("bb", 200)])
def test_converges_to_the_exact_flow(step: str, iters: int) -> None:
    s, t, lam = well_conditioned()
    exact = reference.solve(s, t, lam, 0.1)
    assert (exact == 0).any()
    found = proximal.solve(s, t, lam, 0.1, iters, step)
    torch.testing.assert_close(found, exact, rtol=1e-12, atol=1e-13)
    assert torch.equal(found == 0, exact == 0)


def test_bb_is_ahead_of_safe_steps() -> None:
    s, t, lam = well_conditioned(30, 0.3)
    exact = reference.solve(s, t, lam, 0.1)
    safe, bb = ((proximal.solve(s, t, lam, 0.1, 20, step) - exact).norm() for step in ("safe", "bb"))
    assert bb < safe / 10


def test_safe_steps_never_increase_the_cost() -> None:
    """Also where the step of the paper's appendix, 1 / (alpha sqrt(n) + 1), diverges."""
    s, t, lam = well_conditioned(150, 1.0)
    r, f = torch.softmax(-s, 2), torch.softmax(t, 2)

    def cost(z: Tensor) -> Tensor:
        return (r * z * z / 2 + lam * f * z.abs()).sum(2) + (z.sum(2) - 1) ** 2 / 2

    costs = [cost(proximal.solve(s, t, lam, 1.0, iters, "safe")) for iters in range(1, 30)]
    assert all((after <= before + 1e-15).all() for before, after in itertools.pairwise(costs))


def inputs_for(ragged: Ragged, scale: float) -> list[Tensor]:
    scores = [(scale * normal(ragged.num_rows, 2, 3).detach()).requires_grad_() for _ in range(4)]
    lam = torch.full((ragged.num_graphs,), 0.2, dtype=torch.float64, requires_grad=True)
    return [*scores, normal(ragged.num_rows, 2, 2), lam]


@pytest.mark.parametrize(("step", "iters"), [("safe", 1500), ("bb", 150)])
def test_gradient_through_the_iterations_approaches_the_implicit_one(step: str, iters: int) -> None:
    ragged = Ragged.from_sizes([4, 0, 6])
    inputs = inputs_for(ragged, 0.5)

    def gradients(**options) -> tuple[Tensor, ...]:
        out = sparse_flow(*inputs[:5], ragged, lam=inputs[5], alpha=0.5, **options)
        return torch.autograd.grad(out.square().sum(), inputs)

    exact = gradients()
    for found, expected in zip(gradients(mode="proximal", iters=iters, step=step), exact, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-8)
    early = gradients(mode="proximal", iters=2, step=step)
    assert (early[0] - exact[0]).norm() > 1e-3 * exact[0].norm()


def test_gradcheck_with_the_step_size_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """max r attains the same entry under small changes of everything but the resistance: check those inputs."""
    monkeypatch.setattr(proximal, "_PAIRS", 20)  # several blocks of rows
    ragged = Ragged.from_sizes([3, 0, 5])
    q, k, *rest = inputs_for(ragged, 1.0)

    def run(*tensors: Tensor) -> Tensor:
        torch.manual_seed(2)
        return sparse_flow(
            q.detach(), k.detach(), *tensors[:3], ragged, lam=tensors[3], mode="proximal", iters=4, dropout_p=0.3
        )

    assert torch.autograd.gradcheck(run, rest, fast_mode=True)


def test_blocks_of_rows_and_batches_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    ragged = Ragged.from_sizes([5, 0, 9, 1])
    inputs = [x.detach() for x in inputs_for(ragged, 1.0)]
    whole = sparse_flow(*inputs[:5], ragged, lam=inputs[5], mode="proximal", iters=5)
    monkeypatch.setattr(proximal, "_PAIRS", 10)
    cut = sparse_flow(*inputs[:5], ragged, lam=inputs[5], mode="proximal", iters=5)
    torch.testing.assert_close(cut, whole, rtol=1e-12, atol=1e-14)
    alone = sparse_flow(
        *(x[5:14] for x in inputs[:5]), Ragged.from_sizes([9]), lam=inputs[5][:1], mode="proximal", iters=5
    )
    torch.testing.assert_close(whole[5:14], alone, rtol=1e-12, atol=1e-14)
    nothing = sparse_flow(*(x[:0] for x in inputs[:5]), Ragged.from_sizes([]), lam=inputs[5][:0], mode="proximal")
    assert nothing.shape == (0, 2, 2)
