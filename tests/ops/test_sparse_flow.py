"""Sparse flow: the exact solver against bisection, the fast path against the reference, gradients, corner cases."""

from __future__ import annotations

import functools
import itertools
import math

import mpmath
import pytest
import torch
from torch import Tensor

from graphbench.ops.softmax_attention import softmax_attention
from graphbench.ops.sparse_flow import (
    FlowProblem,
    counted_flow,
    cpu,
    diagnostics,
    flow_diagnostics,
    flow_pattern,
    reference,
    sparse_flow,
    zero_fraction,
)
from graphbench.ops.sparse_flow.refined import RefinedRows
from graphbench.structures import Ragged
from tests.ops.flow_terms import terms_of_lam
from tests.ops.ragged_inputs import AWKWARD, EPS, ROUNDINGS_OF_TERMS, assert_same, assert_within_budget, normal

SIZES = pytest.mark.parametrize("sizes", AWKWARD.values(), ids=AWKWARD)
ALPHAS = pytest.mark.parametrize("alpha", [0.01, 0.1, 1.0, math.inf])


def inputs_for(ragged: Ragged, heads: int = 3, d: int = 5, e: int = 4, scale: float = 1.0) -> list[Tensor]:
    """q, k, q_friction, k_friction, v and lam, one per graph."""
    n = ragged.num_rows
    scores = [(scale * normal(n, heads, d).detach()).requires_grad_() for _ in range(4)]
    lam = [2 * (0.5 + torch.rand(())) / max(1, size) for size in ragged.sizes]
    return [*scores, normal(n, heads, e), torch.tensor(lam, dtype=torch.float64).requires_grad_()]


def call(ragged: Ragged, **options):
    """The operator as a function of its six tensors."""
    return lambda *tensors: sparse_flow(*tensors[:5], ragged, lam=tensors[5], **options)


def solved(s: Tensor, t: Tensor, lam: Tensor, alpha: float) -> tuple[Tensor, int]:
    """Flow of the block solver for (i, j) scores, and its number of steps."""
    z, _, steps = diagnostics.solved(s[None], t[None], lam.to(s.dtype), alpha)
    return z[0], steps


def bisected(s: Tensor, t: Tensor, lam: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    """Flow by bisection of mu / alpha + sum_j max(mu - lam f_j, 0) / r_j = 1, and by how much rounding is amplified."""
    r, f = torch.softmax(-s, 1), torch.softmax(t, 1)
    low = torch.zeros(len(s), 1, dtype=s.dtype)
    high = torch.minimum((lam * f + r).amin(1, keepdim=True), torch.tensor(alpha, dtype=s.dtype))
    for _ in range(200):
        middle = (low + high) / 2
        below = middle / alpha + ((middle - lam * f).relu() / r).sum(1, keepdim=True) < 1
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    z = (high - lam * f).relu() / r
    return z, ((z > 0) * lam * f / r).sum(1, keepdim=True)


def two_nodes() -> tuple[list[Tensor], Ragged]:
    """Equal resistances 1/2, frictions 3/4 and 1/4, values 1 and 10."""
    zero = torch.zeros(2, 1, 1)
    k_friction = torch.tensor([[[math.log(3.0)]], [[0.0]]])
    v = torch.tensor([[[1.0]], [[10.0]]])
    return [zero, zero, torch.ones(2, 1, 1), k_friction, v], Ragged.from_sizes([2])


# With lam = 1/2: 4 mu - 1 = 1 (alpha infinite), mu + 4 mu - 1 = 1 (alpha 1); with alpha 0.1 mu stays below lam / 4.
@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize(("alpha", "flow"), [(math.inf, [0.25, 0.75]), (1.0, [0.05, 0.55]), (0.1, [0.0, 0.0])])
def test_by_hand(backend: str, alpha: float, flow: list[float]) -> None:
    inputs, ragged = two_nodes()
    out = sparse_flow(*inputs, ragged, lam=torch.tensor(0.5), alpha=alpha, backend=backend)
    torch.testing.assert_close(out.flatten(), torch.tensor([flow[0] + 10 * flow[1]] * 2))


@ALPHAS
@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("n", [1, 2, 3, 17, 150, 479, 3000])
def test_equals_bisection(n: int, spread: float, alpha: float) -> None:
    rows = min(n, 30)
    s, t = (spread * torch.randn(rows, n, dtype=torch.float64) for _ in range(2))
    lam = torch.tensor(1 / n, dtype=torch.float64)
    expected, amplified = bisected(s, t, lam, alpha)
    for z in (solved(s, t, lam, alpha)[0], reference.solve(s, t, lam, alpha)):
        # theta and nu may be far larger than the flow, which is their difference: no method does better in float64.
        assert ((z - expected).abs() <= 1e-13 * (1 + amplified) * (1 + expected)).all()
        near = (expected > 0) & (expected < 1e-9 * (1 + amplified))
        assert torch.equal((z > 0) & ~near, (expected > 0) & ~near)


def in_80_digits(
    s: list[float], t: list[float], g: list[float], lam: float, alpha: float
) -> tuple[list[float], list[float], list[float], float]:
    """Flow of one row and, from its gradient g, those of s, t and lam; every active set is tried (README)."""
    n = len(s)
    with mpmath.workdps(80):
        r, f = ([mpmath.exp(sign * mpmath.mpf(x)) for x in scores] for sign, scores in ((-1, s), (1, t)))
        r, f = [x / mpmath.fsum(r) for x in r], [x / mpmath.fsum(f) for x in f]
        rising = sorted(range(n), key=lambda j: f[j])
        for count in range(n, 0, -1):
            active = rising[:count]
            slope = mpmath.fsum(1 / r[j] for j in active) + (0 if math.isinf(alpha) else 1 / mpmath.mpf(alpha))
            mu = (1 + lam * mpmath.fsum(f[j] / r[j] for j in active)) / slope
            if mu > lam * f[active[-1]]:
                break
        else:
            return [0.0] * n, [0.0] * n, [0.0] * n, 0.0
        g_mean = mpmath.fsum(g[j] / r[j] for j in active) / slope
        z, c = [mpmath.mpf(0)] * n, [mpmath.mpf(0)] * n
        for j in active:
            z[j], c[j] = (mu - lam * f[j]) / r[j], g[j] - g_mean
        zc, fc = mpmath.fsum(x * y for x, y in zip(z, c)), mpmath.fsum(f[j] * c[j] / r[j] for j in active)
        ds = [float(z[j] * c[j] - r[j] * zc) for j in range(n)]
        dt = [float(lam * f[j] * (fc - c[j] / r[j])) for j in range(n)]
        return [float(x) for x in z], ds, dt, float(-fc)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("spread", [1.0, 10.0, 30.0])
def test_the_reference_is_one_at_any_spread(spread: float, dtype: torch.dtype) -> None:
    n, lam = 12, 1 / 12
    for alpha in (0.1, 1.0, math.inf):
        s, t = (spread * (torch.rand(8, n) - 0.5) for _ in range(2))
        truth = torch.tensor([in_80_digits(*row, [0.0] * n, lam, alpha)[0] for row in zip(s.tolist(), t.tolist())])
        z = reference.solve(s.to(dtype), t.to(dtype), torch.tensor(lam, dtype=dtype), alpha).float()
        # Scores enter through exponentials: a rounding of the largest of them is the error of every number.
        budget = 50 * torch.finfo(torch.float32).eps * (1 + spread)
        assert ((z - truth).norm(dim=1) <= budget * truth.norm(dim=1)).all()


@pytest.mark.parametrize("spread", [1.0, 5.0, 10.0, 20.0])
def test_rows_in_float64_are_those_of_80_digits(spread: float) -> None:
    n, lam = 12, 1 / 12
    for alpha in (0.01, 0.1, 1.0, math.inf):
        s, t = (spread * torch.randn(5, n, dtype=torch.float64) for _ in range(2))
        g = torch.randn(5, n, dtype=torch.float64)
        rows = RefinedRows.solve(s, t, torch.tensor(lam, dtype=torch.float64), alpha)
        found = [rows.flow, *rows.gradients(g)]
        truth = zip(*(in_80_digits(*row, lam, alpha) for row in zip(s.tolist(), t.tolist(), g.tolist())))
        for ours, exact in zip(found, truth, strict=True):
            of_rows = torch.tensor(exact, dtype=torch.float64).view(5, -1)
            # Where one flow is all there is, gradients vanish but for the rounding of g.
            scale = of_rows.norm(dim=1) + 1e-3 * g.norm(dim=1)
            assert ((ours - of_rows).norm(dim=1) <= 1e-10 * scale).all()
        assert (rows.violation().abs() <= 1e-12).all()


@pytest.mark.parametrize("alpha", [0.01, 0.1, math.inf])
@pytest.mark.parametrize(("spread", "of_friction"), [(1.0, 1.0), (3.0, 1.0), (5.0, 3.0), (8.0, 1.0), (10.0, 10.0)])
def test_gradients_in_float32_at_any_spread(spread: float, of_friction: float, alpha: float) -> None:
    ragged, dropped = Ragged.from_sizes([60, 100, 3]), 0.2
    n = ragged.num_rows
    scales = (spread**0.5, spread**0.5, of_friction**0.5, of_friction**0.5, 1.0)
    inputs = [(scale * torch.randn(n, 2, 16)).requires_grad_() for scale in scales]
    inputs.append(torch.tensor([1 / size for size in ragged.sizes]).requires_grad_())
    exact = [x.detach().double().requires_grad_() for x in inputs]
    seed = settled(ragged, exact, alpha) * torch.randn(n, 2, 16, dtype=torch.float64)
    for p in (0.0, dropped):
        results = []
        for tensors in (inputs, exact):
            torch.manual_seed(7)
            out = call(ragged, alpha=alpha, dropout_p=p)(*tensors) * (seed != 0)
            results.append([out, *torch.autograd.grad(out, tensors, seed.to(out.dtype))])
        (*ours, ours_lam), (*truth, truth_lam) = results
        assert all((a - b).norm() <= 1e-4 * b.norm() for a, b in zip(ours, truth, strict=True))
        if not p:
            assert (ours_lam - truth_lam).norm() <= 1e-4 * terms_of_lam(ragged, exact, seed, alpha).norm()


@pytest.mark.parametrize(("spread", "most"), [(0.1, 3), (1.0, 7), (8.0, 30)])
def test_newton_takes_few_steps(spread: float, most: int) -> None:
    s, t = (spread * torch.randn(200, 479, dtype=torch.float64) for _ in range(2))
    _, steps = solved(s, t, torch.tensor(1 / 479), 0.1)
    assert steps <= most


@SIZES
@pytest.mark.parametrize("alpha", [0.1, math.inf])
def test_equals_reference(sizes: list[int], alpha: float) -> None:
    ragged = Ragged.from_sizes(sizes)
    assert_same(call(ragged, alpha=alpha), call(ragged, alpha=alpha, backend="reference"), inputs_for(ragged))


@pytest.mark.parametrize("block", [64, 1000, 20000])
def test_a_graph_larger_than_a_block_is_cut(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_PAIRS", block)
    ragged = Ragged.from_sizes([4, 150, 3])
    assert_same(call(ragged), call(ragged, backend="reference"), inputs_for(ragged))


@ALPHAS
@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_gradcheck(alpha: float, backend: str) -> None:
    ragged = Ragged.from_sizes([3, 0, 1, 2] if backend == "reference" else [3, 0, 1, 2, 6])
    assert torch.autograd.gradcheck(
        call(ragged, alpha=alpha, backend=backend), inputs_for(ragged, heads=2, d=3, e=2), fast_mode=True
    )


def test_gradcheck_with_one_lam_and_dropout() -> None:
    ragged = Ragged.from_sizes([3, 0, 1, 4])
    *inputs, _ = inputs_for(ragged, heads=2, d=3, e=2)
    lam = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)

    def run(*tensors: Tensor) -> Tensor:
        torch.manual_seed(5)  # every call drops the same flows
        return call(ragged, alpha=1.0, dropout_p=0.4)(*tensors)

    assert torch.autograd.gradcheck(run, [*inputs, lam], fast_mode=True)


def test_the_gradient_reaches_everything() -> None:
    ragged = Ragged.from_sizes([20, 30])
    inputs = inputs_for(ragged)
    for grad in torch.autograd.grad(call(ragged)(*inputs).square().sum(), inputs):
        assert (grad != 0).double().mean() > 0.9


def test_rows_without_flow_have_gradient_zero() -> None:
    ragged = Ragged.from_sizes([1, 2])
    inputs = inputs_for(ragged, scale=0.1)
    with torch.no_grad():
        inputs[5].fill_(1.0)
    out = call(ragged, alpha=0.1)(*inputs)
    assert not out.any()
    assert not any(grad.any() for grad in torch.autograd.grad(out.sum(), inputs))


def settled(ragged: Ragged, inputs: list[Tensor], alpha: float) -> Tensor:
    """(N, H, 1) 1 for rows whose active set is the same in fp32, 0 where mu nearly equals a friction.

    There rounding decides whether the key is active, and the gradient of the row jumps.
    """
    q, k, qf, kf, _, lam = (x.detach() for x in inputs)
    patterns = flow_pattern(FlowProblem(q, k, qf, kf, ragged, lam=lam, alpha=alpha))
    rows = []
    for z_hij, strength, t_ihd, t_jhd in zip(patterns, lam, qf.split(ragged.sizes), kf.split(ragged.sizes)):
        friction = strength * torch.softmax(torch.einsum("ihd,jhd->hij", t_ihd, t_jhd) / t_ihd.shape[2] ** 0.5, 2)
        mu = alpha * (1 - z_hij.sum(2, keepdim=True))
        rows.append(((mu - friction).abs().amin(2, keepdim=True) > 1e-4 * mu).transpose(0, 1))
    return torch.cat(rows).double()


@pytest.mark.parametrize("sizes", [[63, 64, 65], [1, 444, 8, 150], [900]], ids=str)
@pytest.mark.parametrize("scale", [0.6, 1.0])
def test_error_in_float32(sizes: list[int], scale: float) -> None:
    ragged = Ragged.from_sizes(sizes)
    *inputs, lam = inputs_for(ragged, heads=2, d=24, e=24, scale=scale)
    keep = settled(ragged, [*inputs, lam], 0.1)
    assert keep.mean() > 0.5

    def kept(backend: str):
        return lambda *x: keep.to(x[0]) * sparse_flow(*x, ragged, lam=lam.detach(), backend=backend)

    assert_within_budget(kept("cpu"), kept("reference"), inputs)


def test_error_of_the_gradient_of_lam_in_float32() -> None:
    """A sum over rows that cancels: every term may be wrong by a few roundings, and these may add up."""
    for size, scale in itertools.product((8, 65, 444), (0.6, 1.0)):
        ragged = Ragged.from_sizes([size])
        inputs = [x.detach().float() for x in inputs_for(ragged, heads=2, d=24, e=24, scale=scale)]
        inputs[5].requires_grad_()
        seed = settled(ragged, [x.double() for x in inputs], 0.1) * torch.randn_like(inputs[4])
        (found,) = torch.autograd.grad(call(ragged)(*inputs), inputs[5], seed.float())
        exact = [x.detach().double().requires_grad_() for x in inputs]
        seed = seed.float().double()
        (truth,) = torch.autograd.grad(call(ragged, backend="reference")(*exact), exact[5], seed)
        most = terms_of_lam(ragged, exact, seed, 0.1)
        assert (found - truth).abs() <= ROUNDINGS_OF_TERMS * EPS * most


@pytest.mark.parametrize("alpha", [0.1, math.inf])
def test_without_friction_and_with_conservation_it_is_softmax(alpha: float) -> None:
    ragged = Ragged.from_sizes([5, 0, 70])
    q, k, qf, kf, v, _ = inputs_for(ragged)
    softmax = softmax_attention(q, k, v, ragged)
    out = sparse_flow(q, k, qf, kf, v, ragged, lam=torch.tensor(0.0), alpha=alpha)
    if alpha == math.inf:
        torch.testing.assert_close(out, softmax, rtol=1e-12, atol=1e-12)
    else:
        assert not torch.allclose(out, softmax, rtol=1e-12)
    dense = functools.partial(sparse_flow, q, k, None, None, v, ragged, lam=torch.tensor(0.0), mode="dense")
    assert torch.equal(dense(), softmax)
    torch.manual_seed(3)
    dropped = dense(dropout_p=0.5)
    torch.manual_seed(3)
    assert torch.equal(dropped, softmax_attention(q, k, v, ragged, dropout_p=0.5))


@pytest.mark.parametrize("spread", [5.0, 40.0, 200.0])
def test_far_scores_in_float32_stay_finite_and_conserve_flow(spread: float) -> None:
    """Rows whose nu exceeds the flow by many orders of magnitude are solved in float64; 1 / w does not overflow."""
    s, t = spread * torch.randn(300, 100), 0.3 * torch.randn(300, 100)
    z, _ = solved(s, t, torch.tensor(1.0), math.inf)
    assert (z >= 0).all()
    torch.testing.assert_close(z.sum(1), torch.ones(300), rtol=1e-4, atol=0)
    ragged = Ragged.from_sizes([40, 13])
    inputs = [x.detach().float().requires_grad_() for x in inputs_for(ragged, scale=math.sqrt(spread))]
    out = call(ragged, alpha=math.inf)(*inputs)
    for each in (out, *torch.autograd.grad(out.sum(), inputs)):
        assert each.isfinite().all()
    assert out.abs().max() <= (1 + 1e-4) * inputs[4].abs().max()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_accumulates_in_single(dtype: torch.dtype) -> None:
    ragged = Ragged.from_sizes([100, 20])
    half = [x.detach().to(dtype).requires_grad_() for x in inputs_for(ragged, heads=2, d=8, e=8, scale=0.7)]
    out = call(ragged)(*half)
    assert out.dtype == dtype
    exact = [x.detach().double().requires_grad_() for x in half]
    truth = call(ragged, backend="reference")(*exact)
    assert (out - truth).abs().max() <= torch.finfo(dtype).eps * truth.abs().max()
    assert call(ragged, backend="reference")(*half).dtype == dtype
    grads = torch.autograd.grad(out.float().square().sum(), half)
    for ours, theirs in zip(grads, torch.autograd.grad(truth.square().sum(), exact), strict=True):
        assert ours.dtype == dtype
        assert (ours - theirs).norm() <= 4 * torch.finfo(dtype).eps * theirs.norm()


def test_batch_independence_and_permutation() -> None:
    sizes = [5, 0, 70, 9]
    ragged = Ragged.from_sizes(sizes)
    *inputs, lam = (x.detach() for x in inputs_for(ragged))
    out = sparse_flow(*inputs, ragged, lam=lam)
    for graph, parts in enumerate(zip(*(x.split(sizes) for x in (*inputs, out)))):
        *alone, expected = parts
        found = sparse_flow(*alone, Ragged.from_sizes([len(expected)]), lam=lam[graph])
        torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-13)
    perm = torch.cat([torch.randperm(5), 5 + torch.randperm(70), 75 + torch.randperm(9)])
    permuted = sparse_flow(*(x[perm] for x in inputs), ragged, lam=lam)
    torch.testing.assert_close(permuted, out[perm], rtol=1e-11, atol=1e-13)


def kept(n: int, p: float) -> Tensor:
    """(n, H, n) flows after dropout: without friction and with conservation they are uniform, 1 / n."""
    zero, v = torch.zeros(n, 2, 2), torch.eye(n)[:, None, :].expand(n, 2, n)
    return sparse_flow(*[zero] * 4, v, Ragged.from_sizes([n]), lam=torch.tensor(0.0), alpha=math.inf, dropout_p=p)


def test_dropout_rate_scale_and_seed() -> None:
    n, p = 120, 0.3
    torch.manual_seed(1)
    first, second = kept(n, p), kept(n, p)
    torch.manual_seed(1)
    assert torch.equal(kept(n, p), first)
    assert not torch.equal(first, second)
    on = first > 0
    torch.testing.assert_close(first[on] * n * (1 - p), torch.ones(int(on.sum())), rtol=1e-4, atol=0)
    assert on.double().mean().item() == pytest.approx(1 - p, abs=0.01)
    assert not kept(5, 1.0).any()


@pytest.mark.parametrize("mode", ["exact", "proximal"])
def test_dropout_keeps_the_mean(mode: str) -> None:
    ragged = Ragged.from_sizes([6, 9])
    inputs = [x.detach() for x in inputs_for(ragged)]
    run = call(ragged, mode=mode, iters=3)
    mean = sum(call(ragged, mode=mode, iters=3, dropout_p=0.5)(*inputs) for _ in range(800)) / 800
    torch.testing.assert_close(mean, run(*inputs), rtol=0, atol=0.15)


def test_memory_of_one_large_graph_is_linear() -> None:
    """What lives between the passes are inputs and a few numbers per row; a block at a time in between."""
    n, d = 3000, 4
    ragged = Ragged.from_sizes([n])
    inputs = [normal(n, 1, d, dtype=torch.float32) for _ in range(5)]
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x) or x, lambda x: x):
        out = sparse_flow(*inputs, ragged, lam=torch.tensor(1 / n), dropout_p=0.5)
    assert sum(x.numel() for x in saved) <= 5 * n * d + 6 * n
    out.sum().backward()
    assert all(x.grad.isfinite().all() for x in inputs)


@pytest.mark.parametrize("mode", ["exact", "proximal", "dense"])
def test_pattern_is_what_the_operator_multiplies_with(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "_PAIRS", 500)  # several blocks of rows
    ragged = Ragged.from_sizes([3, 0, 1, 40])
    *scores, v, lam = (x.detach() for x in inputs_for(ragged))
    options = {"lam": lam, "alpha": 0.5, "mode": mode, "iters": 4}
    patterns = flow_pattern(FlowProblem(*scores, ragged, **options))
    assert [x.shape for x in patterns] == [(3, n, n) for n in ragged.sizes]
    out = torch.cat([torch.einsum("hij,jhe->ihe", z, part) for z, part in zip(patterns, v.split([3, 0, 1, 40]))])
    torch.testing.assert_close(out, sparse_flow(*scores, v, ragged, **options), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("sizes", [[], [0], [3, 0, 1, 40], [9, 9, 9], [5, 12, 7, 12, 11, 6], [400, 2, 30]])
@pytest.mark.parametrize("mode", ["exact", "proximal", "dense"])
def test_zeros_counted_on_the_way_are_those_of_the_diagnostics(sizes: list[int], mode: str) -> None:
    ragged = Ragged.from_sizes(sizes)
    *scores, v, lam = (x.detach() for x in inputs_for(ragged))
    options = {"lam": lam, "alpha": 0.5, "mode": mode, "iters": 4}
    problem = FlowProblem(*scores, ragged, **options)
    expected = flow_diagnostics(problem).zero_fraction
    torch.testing.assert_close(zero_fraction(problem), expected, equal_nan=True)
    out, fraction = counted_flow(problem, v)
    torch.testing.assert_close(fraction, expected, equal_nan=True)
    assert torch.equal(out, sparse_flow(*scores, v, ragged, **options))


@pytest.mark.parametrize("mode", ["exact", "proximal", "dense"])
def test_autocast_leaves_flows_in_single_precision(mode: str) -> None:
    ragged = Ragged.from_sizes([3, 0, 1, 40])
    *scores, v, lam = (x.detach().bfloat16() for x in inputs_for(ragged))
    options = {"lam": lam.float(), "alpha": 0.5, "mode": mode, "iters": 4}
    expected = [sparse_flow(*scores, v, ragged, **options), zero_fraction(FlowProblem(*scores, ragged, **options))]
    with torch.autocast("cpu", torch.bfloat16):
        found = [sparse_flow(*scores, v, ragged, **options), zero_fraction(FlowProblem(*scores, ragged, **options))]
    torch.testing.assert_close(found, expected, equal_nan=True, rtol=0, atol=0)


def test_diagnostics() -> None:
    ragged = Ragged.from_sizes([3, 0, 1, 40])
    *scores, _, lam = (x.detach() for x in inputs_for(ragged))
    for mode in ("exact", "proximal", "dense"):
        options = {"lam": lam, "alpha": 0.5, "mode": mode, "iters": 4}
        found, patterns = (
            flow_diagnostics(FlowProblem(*scores, ragged, **options)),
            flow_pattern(FlowProblem(*scores, ragged, **options)),
        )
        for graph, z in enumerate(patterns):
            if not z.numel():
                assert found.zero_fraction[graph].isnan()
                assert found.residual[graph].isnan()
                assert found.row_sum[graph].isnan()
                assert found.iterations[graph] == 0
                continue
            assert found.zero_fraction[graph].item() == pytest.approx((z == 0).double().mean().item())
            assert found.row_sum[graph].item() == pytest.approx(z.sum(2).mean().item())
            if mode == "proximal":
                exact = flow_pattern(FlowProblem(*scores, ragged, lam=lam, alpha=0.5))[graph]
                distance = (z - exact).norm() / (exact.norm() if exact.any() else 1)
                assert found.residual[graph].item() == pytest.approx(distance.item(), rel=1e-9)
                assert found.iterations[graph] == 4
            else:
                assert found.residual[graph] < 1e-12
    exact = flow_diagnostics(FlowProblem(*scores, ragged, lam=lam))
    assert 0 < exact.zero_fraction[3] < 1
    assert exact.iterations[3] >= 2
    none = flow_diagnostics(FlowProblem(*(x[:0] for x in scores), Ragged.from_sizes([]), lam=lam[:0]))
    assert none.zero_fraction.shape == (0,)


def test_wrong_arguments_are_refused() -> None:
    ragged = Ragged.from_sizes([2, 3])
    q, k, qf, kf, v, lam = (x.detach() for x in inputs_for(ragged))
    run = functools.partial(sparse_flow, q, k, qf, kf, v, ragged)
    with pytest.raises(ValueError, match=r"q, k must be \(5, H, d\), received \(4, 3, 5\)"):
        sparse_flow(q[:4], k[:4], qf, kf, v, ragged, lam=lam)
    with pytest.raises(ValueError, match=r"q_friction, k_friction must be \(5, 3, 5\) as q, received None, None"):
        sparse_flow(q, k, None, None, v, ragged, lam=lam)
    with pytest.raises(ValueError, match=r"v must be \(5, 3, e\), received \(4, 3, 4\)"):
        sparse_flow(q, k, qf, kf, v[:4], ragged, lam=lam)
    with pytest.raises(ValueError, match=r"lam must be \(\) or \(2,\), one per graph, received \(3,\)"):
        run(lam=torch.ones(3))
    with pytest.raises(ValueError, match=r"alpha must be positive \(inf included\), received 0"):
        run(lam=lam, alpha=0)
    with pytest.raises(ValueError, match=r"\['exact', 'proximal', 'dense'\], received 'exakt'"):
        run(lam=lam, mode="exakt")
    with pytest.raises(ValueError, match=r"\['safe', 'bb'\], received 'fast'"):
        run(lam=lam, mode="proximal", step="fast")
    with pytest.raises(ValueError, match="iters must be at least 1, received 0"):
        run(lam=lam, mode="proximal", iters=0)
    with pytest.raises(ValueError, match="finite alpha"):
        run(lam=lam, mode="proximal", alpha=math.inf)
    with pytest.raises(ValueError, match=r"received 1\.5"):
        run(lam=lam, dropout_p=1.5)
    with pytest.raises(ValueError, match="'gpuu'"):
        run(lam=lam, backend="gpuu")


@pytest.mark.parametrize("spread", [40.0, 75.0, 100.0])
def test_gradients_of_weights_below_any_float32(spread: float) -> None:
    """The active keys of the first row have weights of e^-spread; its flow is known, so that a difference tells."""
    ragged = Ragged.from_sizes([3])

    def out(first: Tensor) -> Tensor:
        given = ([1.0, 0.5, 0.1], [0.0, -spread / 2, -spread], [0.0, 1.0, 1.0], [3.0, 1.0, 0.0], [1.0, 10.0, 100.0])
        q, k, qf, kf, v = (torch.tensor(each, dtype=torch.float64).view(3, 1, 1) for each in given)
        qf = qf + first * torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64).view(3, 1, 1)
        lam = torch.tensor(100.0, dtype=torch.float64)
        return sparse_flow(q, k, qf, kf, v, ragged, lam=lam, alpha=1000.0, backend="cpu")[0, 0, 0]

    first = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    [found] = torch.autograd.grad(out(first), first)
    with torch.no_grad():
        difference = (out(first + 1e-3) - out(first - 1e-3)) / 2e-3
    assert found.item() == pytest.approx(difference.item(), rel=1e-4)


@pytest.mark.parametrize("lam", [0.0, 1e-8])
@pytest.mark.parametrize("spread", [4.0, 8.0, 16.0, 40.0])
def test_gradient_of_lam_where_one_key_has_nearly_all_weight(spread: float, lam: float) -> None:
    """Its part is a difference of nearly equal numbers, times the sum of all 1 / w."""
    given = ([1.0, 0.0], [0.3, 0.3 - spread], [1.0, 1.0], [1.0, 0.2], [1.3, 2.7])

    def gradient(backend: str, dtype: torch.dtype) -> float:
        rows = (torch.tensor(each, dtype=dtype).view(2, 1, 1) for each in given)
        weight = torch.tensor(lam, dtype=dtype, requires_grad=True)
        out = sparse_flow(*rows, Ragged.from_sizes([2]), lam=weight, alpha=1000.0, backend=backend)
        return float(torch.autograd.grad(out[0].sum(), weight)[0])

    exact = gradient("reference", torch.float64)
    assert gradient("cpu", torch.float32) == pytest.approx(exact, rel=1e-4)
    assert gradient("cpu", torch.float64) == pytest.approx(exact, rel=1e-9)
