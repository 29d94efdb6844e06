"""The kernels of sparse_flow against the reference, on a GPU where there is one and interpreted elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from graphbench.ops.sparse_flow import (
    FlowProblem,
    counted_flow,
    flow_diagnostics,
    gpu,
    gpu_wide,
    reference,
    sparse_flow,
)
from graphbench.structures import Ragged
from graphbench.structures.capacity import Capacity, CapacityRagged
from tests.ops.flow_terms import terms_of_lam
from tests.ops.ragged_inputs import DEVICE, assert_within_budget, normal, uneven_seed, values_and_gradients

# The interpreter is numpy, which warns about lanes that are computed and thrown away.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
NAMES = ("output", "q", "k", "q_friction", "k_friction", "v", "lam")


SMALL = {
    "flow_whole": {16: (16, 16, 4), 32: (32, 32, 4)},
    "flow_tiled": dict.fromkeys((64, 128, 256), (32, 64, 4)),
    "flow_query_side": dict.fromkeys((64, 128, 256), (32, 64, 4)),
    "flow_key_side": dict.fromkeys((64, 128, 256), (64, 32, 4)),
}


@pytest.fixture(params=["tiles", "matrices"])
def small_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """From 33 nodes on, several tiles of rows and of keys; nothing about pairs is stored, or matrices of them are."""
    monkeypatch.setattr(gpu, "blocks_on", lambda device, kernels: dict.fromkeys((2, 4, 8), SMALL[kernels]))
    monkeypatch.setattr(gpu_wide, "takes", lambda q, v, ragged: request.param == "matrices")
    monkeypatch.setattr(gpu_wide, "MOST", 256)
    for product in ("PAIRS", "WEIGHTED", "TURNED"):
        monkeypatch.setattr(gpu_wide, product, gpu_wide.Product(32, 32, 16, 4, 2))
    for rows in ("SOLVED", "DIFFERENTIATED"):
        monkeypatch.setattr(gpu_wide, rows, (16, 4))


def inputs_for(ragged: Ragged, d: int, e: int, heads: int = 2, spread: float = 1.0) -> list[Tensor]:
    """q, k, q_friction, k_friction, v and one lam per graph (0 among them); ``spread`` is that of the scores."""
    n, scale = ragged.num_rows, math.sqrt(spread)
    scores = [normal(n, heads, d).mul(scale).detach().to(DEVICE).requires_grad_() for _ in range(4)]
    strengths = [(2.0, 0.5, 0.0)[g % 3] / max(size, 1) for g, size in enumerate(ragged.sizes)]
    lam = torch.tensor(strengths, dtype=torch.float64)
    return [*scores, normal(n, heads, e).detach().to(DEVICE).requires_grad_(), lam.to(DEVICE).requires_grad_()]


def call(function: Callable[..., Tensor], ragged: Ragged, alpha: float, p: float = 0.0) -> Callable[..., Tensor]:
    return lambda q, k, qf, kf, v, lam: function(q, k, qf, kf, v, ragged, lam, alpha, p)


def errors(ragged: Ragged, alpha: float, inputs: list[Tensor], function=gpu.sparse_flow) -> dict[str, float]:
    """Distance to the reference in float64, relative to the norm, of the output and every gradient."""
    exact = values_and_gradients(
        call(reference.sparse_flow, ragged, alpha), [x.detach().double().requires_grad_() for x in inputs]
    )
    found = values_and_gradients(call(function, ragged, alpha), inputs)
    return {name: ((a - b).norm() / b.norm().clamp(min=1e-3)).item() for name, a, b in zip(NAMES, found, exact)}


def cast(inputs: list[Tensor], dtype: torch.dtype) -> list[Tensor]:
    rows = [x.detach().to(dtype).requires_grad_() for x in inputs[:5]]
    return [*rows, inputs[5].detach().float().requires_grad_()]


@pytest.mark.parametrize(
    ("alpha", "sizes"),
    [
        (0.1, [0, 70, 1, 2, 17, 0, 33]),
        (0.01, [40, 17]),
        pytest.param(0.1, [0, 130, 1, 2, 17, 0, 65, 63], marks=pytest.mark.exhaustive),
        pytest.param(1.0, [70, 2], marks=pytest.mark.exhaustive),
        (math.inf, [1, 66, 2]),
    ],
    ids=str,
)
def test_equals_reference(alpha: float, sizes: list[int], small_blocks: None) -> None:
    ragged = Ragged.from_sizes(sizes, DEVICE)
    found = errors(ragged, alpha, inputs_for(ragged, 5, 4))
    assert max(found.values()) < 1e-12, found


def test_a_padded_batch_has_tiles_without_rows(small_blocks: None) -> None:
    sizes = [40, 3, 10, 0]  # the last two are padding
    plain = Ragged.from_sizes(sizes, DEVICE)
    padded = CapacityRagged(plain.ptr, Capacity(graphs=2, padding_graphs=2, nodes=53, edges=0, max_size=40))
    inputs = inputs_for(plain, 5, 4, heads=1)
    both = (values_and_gradients(call(gpu.sparse_flow, ragged, 0.1), inputs) for ragged in (plain, padded))
    for expected, found in zip(*both):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_zeros_are_counted_on_the_way(small_blocks: None) -> None:
    ragged = Ragged.from_sizes([0, 70, 1, 17], DEVICE)
    *scores, v, lam = (x.detach() for x in inputs_for(ragged, 5, 4))
    problem = FlowProblem(*scores, ragged, lam)
    out, fraction = counted_flow(problem, v, backend="gpu")
    torch.testing.assert_close(out, gpu.sparse_flow(*scores, v, ragged, lam, problem.alpha, 0.0), rtol=0, atol=0)
    expected = flow_diagnostics(problem).zero_fraction
    assert 0 < expected[1] < 1
    torch.testing.assert_close(fraction, expected, rtol=1e-15, atol=0, equal_nan=True)


@pytest.mark.exhaustive
def test_default_blocks_and_a_width_that_is_no_power_of_two() -> None:
    ragged = Ragged.from_sizes([40, 3, 70], DEVICE)
    inputs = inputs_for(ragged, 68, 20, heads=1)
    found = errors(ragged, 0.1, inputs)
    assert max(found.values()) < 1e-12, found
    terms = terms_of_lam(ragged, inputs, uneven_seed(inputs[4]), 0.1)
    both = (call(function, ragged, 0.1) for function in (gpu.sparse_flow, reference.sparse_flow))
    assert_within_budget(*both, inputs, draws=4, terms={NAMES.index("lam"): terms})


@pytest.mark.exhaustive
@pytest.mark.parametrize("alpha", [0.1, math.inf])
def test_wide_scores(alpha: float, small_blocks: None) -> None:
    """Up to e^50 between the resistances of one row."""
    ragged = Ragged.from_sizes([65, 20], DEVICE)
    inputs = inputs_for(ragged, 5, 4, heads=1, spread=8.0)
    found = errors(ragged, alpha, inputs)
    assert max(found.values()) < 1e-6, found
    out = gpu.sparse_flow(*cast(inputs, torch.float32)[:5], ragged, inputs[5].float(), alpha, 0.0)
    assert out.isfinite().all()


def stable_flow(q: Tensor, k: Tensor, qf: Tensor, kf: Tensor, v: Tensor, lam: Tensor, alpha: float) -> Tensor:
    """Output of one graph and head by sorting, from differences of neighbouring frictions; no sum cancels.

    The reference subtracts theta from nu, which has no digit left even in float64 where the scores are wide.
    """
    s, t = ((a[:, 0] @ b[:, 0].T) / math.sqrt(q.shape[2]) for a, b in ((q, k), (qf, kf)))
    top = s.amax(1, keepdim=True)
    w, kappa, f = (s - top).exp(), (top - s).exp().sum(1, keepdim=True), t.softmax(1)
    order = t.argsort(1)
    t_up, f_up = t.gather(1, order), f.gather(1, order)
    slope = (1 / alpha) / kappa + w.gather(1, order).cumsum(1)
    steps = lam * kappa * f_up[:, :-1] * torch.expm1(t_up.diff(dim=1)) * slope[:, :-1]
    left_side = lam * f_up[:, :1] / alpha + torch.cat([torch.zeros_like(steps[:, :1]), steps.cumsum(1)], 1)
    last = (left_side < 1).sum(1, keepdim=True) - 1
    delta = (1 - left_side.gather(1, last)) / slope.gather(1, last)
    above = lam * kappa * f_up.gather(1, last) * torch.expm1(t - t_up.gather(1, last))
    return ((w * (delta - above).relu()) @ v[:, 0])[:, None]


@pytest.mark.parametrize(
    ("small_blocks", "size"), [("tiles", 17), ("tiles", 40), ("matrices", 17)], indirect=["small_blocks"]
)
@pytest.mark.parametrize(
    "s_std", [*(pytest.param(std, marks=pytest.mark.exhaustive) for std in (0.1, 3.0, 5.0)), 1.0, 8.0]
)
def test_accuracy_in_float32(s_std: float, size: int, small_blocks: None) -> None:
    """No worse than a few roundings of the scores, whose exponentials the flows are, however wide the scores are."""
    ragged = Ragged.from_sizes([size], DEVICE)
    lam = torch.tensor([1 / size], device=DEVICE)
    for t_std, alpha in ((0.0, 0.1), (1.0, math.inf), (3.0, 1.0)):
        scales = [math.sqrt(x) for x in (s_std, s_std, t_std, t_std)] + [1.0]
        rows = [(scale * normal(size, 1, 16 if i < 4 else 8)).detach().float() for i, scale in enumerate(scales)]
        rows = [x.to(DEVICE) for x in rows]
        exact = stable_flow(*(x.double() for x in rows), lam.double(), alpha)
        error = ((gpu.sparse_flow(*rows, ragged, lam, alpha, 0.0) - exact).norm() / exact.norm()).item()
        s, t = (a[:, 0] @ b[:, 0].T / 4 for a, b in (rows[:2], rows[2:4]))
        largest = 1 + s.abs().max().item() + t.abs().max().item()
        assert error < 4 * torch.finfo(torch.float32).eps * largest, (t_std, alpha, error, largest)


@pytest.mark.parametrize(
    ("small_blocks", "size", "graphs"),
    [("tiles", 32, 4), ("tiles", 40, 4), ("matrices", 32, 4)],
    indirect=["small_blocks"],
)
@pytest.mark.parametrize("spread", [12.0, 40.0])
def test_flows_of_any_scores(spread: float, size: int, graphs: int, small_blocks: None) -> None:
    """No rounding hides a key that has flow, and no range of scores overflows: e^60 and e^200 between resistances.

    Within e^60 flows are right; beyond, where frictions leave the range of float32 as well, they are numbers. Queries
    are scores and keys unit vectors, so that rows are what is drawn: independent in even graphs, of few different ones
    in odd graphs, as copies of nodes have them.
    """
    if spread == 40.0:
        graphs //= 2  # every one of their rows leaves the range
    draw, rows = torch.Generator().manual_seed(0), []
    for graph in range(graphs):
        s, t = (std * torch.randn(size, size, generator=draw) for std in (spread, spread / 2))
        if graph % 2:
            same = torch.randint(size // 4, (size, size), generator=draw)
            s, t = s.gather(1, same), t.gather(1, same)
        rows.append((s, t))
    s, t = (torch.cat([row[i] for row in rows])[:, None].to(DEVICE) for i in range(2))
    unit = torch.eye(size, device=DEVICE).repeat(graphs, 1)[:, None]
    ragged, lam = Ragged.from_sizes([size] * graphs, DEVICE), torch.full((graphs,), 1 / size, device=DEVICE)
    queries = (math.sqrt(size) * x for x in (s, t))
    inputs = [x for q in queries for x in (q, unit)] + [unit, lam]
    inputs = [x.clone().requires_grad_() for x in inputs]
    found = values_and_gradients(call(gpu.sparse_flow, ragged, 0.1), inputs)
    assert all(x.isfinite().all() for x in found)
    if spread < 40.0:
        parts = (([x[size * g : size * (g + 1)].double() for x in inputs[:5]], lam[g]) for g in range(graphs))
        exact = torch.cat([stable_flow(*part, strength.double(), 0.1) for part, strength in parts])
        error = (found[0] - exact).norm(dim=-1).max().item()
        assert error < 64 * torch.finfo(torch.float32).eps * (1 + s.abs().max().item() + t.abs().max().item()), error


@pytest.mark.parametrize("alpha", [1.0, math.inf])
def test_keys_with_flow_far_above_the_lowest_keep_their_ratio(alpha: float, small_blocks: None) -> None:
    """A row whose scores span more than a number holds is solved once more, from the highest key that has flow."""
    scores = torch.tensor([[60.0, 50.0, -70.0], [50.0, -70.0, 58.0], [-90.0, 1.0, 0.0]], device=DEVICE)[:, None]
    unit, lam = torch.eye(3, device=DEVICE)[:, None], torch.tensor([0.01], device=DEVICE)
    inputs = [math.sqrt(3) * scores, unit, torch.zeros_like(scores), unit, unit]
    exact = stable_flow(*(x.double() for x in inputs), lam.double(), alpha)
    found = gpu.sparse_flow(*inputs, Ragged.from_sizes([3], DEVICE), lam, alpha, 0.0)
    torch.testing.assert_close(found, exact.float(), rtol=64 * 90 * torch.finfo(torch.float32).eps, atol=1e-30)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision(dtype: torch.dtype, small_blocks: None) -> None:
    """Gradients are rounded twice more than by the reference, which rounds its float32 result only."""
    ragged = Ragged.from_sizes([40, 7], DEVICE)
    inputs = cast(inputs_for(ragged, 20, 24, heads=1), dtype)
    out = gpu.sparse_flow(*inputs[:5], ragged, inputs[5], 0.1, 0.0)
    assert out.dtype == dtype
    found = errors(ragged, 0.1, inputs)
    assert max(found.values()) < 8 * torch.finfo(dtype).eps, found


def test_no_flow_has_no_gradient(small_blocks: None) -> None:
    """The friction of every edge exceeds what conservation pays, lam f > alpha."""
    ragged = Ragged.from_sizes([1, 2, 40], DEVICE)
    inputs = inputs_for(ragged, 5, 4)
    inputs[5] = torch.tensor([1.0, 100.0, 4000.0], dtype=torch.float64, device=DEVICE, requires_grad=True)
    assert all(x.abs().max() == 0 for x in values_and_gradients(call(gpu.sparse_flow, ragged, 0.1), inputs))


@pytest.mark.exhaustive
def test_scores_that_are_not_numbers_end_and_stay_visible(small_blocks: None) -> None:
    ragged = Ragged.from_sizes([40, 3, 20], DEVICE)
    for place in (0, 2):
        inputs = inputs_for(ragged, 5, 4)
        with torch.no_grad():
            inputs[place][0] = inputs[place][43] = math.nan
        found = values_and_gradients(call(gpu.sparse_flow, ragged, 0.1), inputs)[0]
        assert found[0].isnan().all()
        assert found[43].isnan().all()
        assert found[40:43].isfinite().all()


def test_graphs_do_not_mix_and_views_are_read_right(small_blocks: None) -> None:
    sizes = [40, 9, 20]
    ragged = Ragged.from_sizes(sizes, DEVICE)
    joint = normal(69, 2, 24).detach().to(DEVICE)
    views = [joint[..., :5], joint[..., 5:10], joint[..., 10:15], joint[..., 15:20], joint[..., 20:]]
    lam = torch.tensor([0.01, 0.1, 0.02], dtype=torch.float64, device=DEVICE)
    together = sparse_flow(*views, ragged, lam=lam, backend="gpu")
    for graph, size in enumerate(sizes):
        first = sum(sizes[:graph])
        alone = [x[first : first + size].clone() for x in views]
        one = Ragged.from_sizes([size], DEVICE)
        torch.testing.assert_close(
            together[first : first + size], sparse_flow(*alone, one, lam=lam[graph], backend="gpu"), rtol=0, atol=1e-14
        )


def test_dropout_uses_one_mask_in_both_directions(small_blocks: None) -> None:
    """With the unit matrix as v the output is the dropped flow itself; its mask explains every gradient."""
    sizes, p = [36, 5], 0.5
    ragged = Ragged.from_sizes(sizes, DEVICE)
    inputs = inputs_for(ragged, 5, 4)
    units = torch.zeros(41, 2, 36, dtype=torch.float64, device=DEVICE)
    for first, size in ((0, 36), (36, 5)):
        units[first : first + size, :, :size] = torch.eye(size, dtype=torch.float64, device=DEVICE)[:, None]

    def run(seed: int, v: Tensor, rate: float) -> Callable[..., Tensor]:
        def flow(q: Tensor, k: Tensor, qf: Tensor, kf: Tensor, lam: Tensor) -> Tensor:
            torch.manual_seed(seed)
            return gpu.sparse_flow(q, k, qf, kf, v, ragged, lam, 0.1, rate)

        return flow

    free = [*inputs[:4], inputs[5]]
    flows, dropped = run(0, units, 0.0)(*free).detach(), run(0, units, p)(*free).detach()
    torch.testing.assert_close(dropped, run(0, units, p)(*free), rtol=0, atol=0)
    assert not torch.equal(dropped, run(1, units, p)(*free))
    kept = dropped != 0
    torch.testing.assert_close(dropped, torch.where(kept, flows / (1 - p), 0))
    assert abs(kept.sum().item() / (flows != 0).sum().item() - (1 - p)) < 0.05

    def masked(q: Tensor, k: Tensor, qf: Tensor, kf: Tensor, v: Tensor, lam: Tensor) -> Tensor:
        blocks, first = [], 0
        for size, strength in zip(sizes, lam):
            rows = slice(first, first + size)
            s_hij, t_hij = (torch.einsum("ihd,jhd->hij", a[rows], b[rows]) / 5**0.5 for a, b in ((q, k), (qf, kf)))
            mask_hij = kept[rows, :, :size].transpose(0, 1) / (1 - p)
            flow_hij = reference.solve(s_hij, t_hij, strength, 0.1) * mask_hij
            blocks.append(torch.einsum("hij,jhe->ihe", flow_hij, v[rows]))
            first += size
        return torch.cat(blocks)

    def ours(q: Tensor, k: Tensor, qf: Tensor, kf: Tensor, v: Tensor, lam: Tensor) -> Tensor:
        return run(0, v, p)(q, k, qf, kf, lam)

    for name, a, b in zip(NAMES, values_and_gradients(ours, inputs), values_and_gradients(masked, inputs)):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12, msg=lambda text, name=name: f"{name}: {text}")
    nothing = gpu.sparse_flow(*inputs[:5], ragged, inputs[5], 0.1, 1.0)
    assert nothing.abs().max() == 0


@pytest.mark.parametrize("sizes", [[], [0, 0]], ids=["no_graphs", "empty_graphs"])
def test_nothing_to_do(sizes: list[int]) -> None:
    ragged = Ragged.from_sizes(sizes, DEVICE)
    for each in values_and_gradients(call(gpu.sparse_flow, ragged, 0.1), inputs_for(ragged, 5, 4)):
        assert each.numel() == 0 or each.abs().max() == 0


def test_saves_numbers_per_row_and_no_flow() -> None:
    ragged = Ragged.from_sizes([50], DEVICE)
    kept: list[int] = []

    def keep(x: Tensor) -> Tensor:
        kept.append(x.numel())
        return x

    inputs = inputs_for(ragged, 4, 4, heads=1)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        gpu.sparse_flow(*inputs[:5], ragged, inputs[5], 0.1, 0.0)
    assert kept
    assert sum(kept) == (5 * 4 + 7) * 50 + 1


@pytest.mark.parametrize("wide", ["d", "e"])
def test_heads_wider_than_the_accumulators(wide: str) -> None:
    """They take the torch code, on any device."""
    ragged = Ragged.from_sizes([5, 2], DEVICE)
    found = errors(ragged, 0.1, inputs_for(ragged, 260 if wide == "d" else 4, 260 if wide == "e" else 4))
    assert max(found.values()) < 1e-12, found
