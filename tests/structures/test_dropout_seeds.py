"""Seeds of dropout: one draw for a step's operators, never the same twice, and independent of earlier steps."""

from __future__ import annotations

from unittest import mock

import torch
from torch import Tensor

from graphbench.structures import dropout_seeds as seeds

CPU = torch.device("cpu")


def _step(operators: int) -> Tensor:
    with seeds.seeds_drawn_together():
        return torch.stack([seeds.dropout_seeds(CPU) for _ in range(operators)])


def test_a_step_draws_once_and_no_operator_shares_a_seed() -> None:
    torch.manual_seed(0)
    with mock.patch.object(torch, "randint", wraps=torch.randint) as drawn:
        taken = _step(seeds.PER_DRAW)
        assert drawn.call_count == 1
        more = _step(seeds.PER_DRAW + 1)
        assert drawn.call_count == 3
    assert taken.shape == (seeds.PER_DRAW, seeds.PER_OPERATOR)
    both = torch.cat([taken, more])
    assert both.unique().numel() == both.numel()
    assert 0 <= int(both.min())
    assert int(both.max()) < 2**31


def test_the_next_step_depends_on_the_state_of_the_generator_alone() -> None:
    """Whether a step is the first of a process or not: a resumed run takes the seeds of an uninterrupted one."""
    torch.manual_seed(0)
    _step(5)
    state = torch.get_rng_state()
    expected = _step(5)
    _step(3)
    torch.set_rng_state(state)
    assert torch.equal(_step(5), expected)


def test_operators_outside_of_a_step_draw_for_themselves() -> None:
    first, second = seeds.dropout_seeds(CPU), seeds.dropout_seeds(CPU)
    assert first.shape == (seeds.PER_OPERATOR,)
    assert not torch.equal(first, second)


def test_kernels_get_aligned_addresses() -> None:
    """Triton compiles a kernel anew for addresses that are no multiple of 16."""
    with seeds.seeds_drawn_together():
        assert all(seeds.dropout_seeds(CPU).data_ptr() % 16 == 0 for _ in range(5))
