"""Random generators go on where a checkpoint left them."""

from __future__ import annotations

import random
from unittest import mock

import numpy as np
import pytest
import torch

from graphbench.train.random_state import random_state, set_random_state
from graphbench.train.seeding import seed_everything


def test_random_states_come_back() -> None:
    np.random.standard_normal()  # leaves a second value in store  # noqa: NPY002
    random.gauss(0, 1)
    state = random_state()

    def draw() -> list[float]:
        return [torch.rand(1).item(), np.random.standard_normal(), random.gauss(0, 1), random.random()]  # noqa: NPY002

    first = draw()
    set_random_state(state)
    assert draw() == first


@pytest.mark.parametrize("visible", [1, 2, 3])
def test_devices_that_are_there_go_on_whatever_their_number_was(visible: int) -> None:
    of_two = random_state() | {"cuda": [torch.zeros(16, dtype=torch.uint8), torch.ones(16, dtype=torch.uint8)]}
    with (
        mock.patch("torch.cuda.is_available", return_value=True),
        mock.patch("torch.cuda.device_count", return_value=visible),
        mock.patch("torch.cuda.set_rng_state") as put_back,
    ):
        set_random_state(of_two)
    assert [call.args[1] for call in put_back.call_args_list] == list(range(min(visible, 2)))


def test_processes_of_one_run_draw_other_numbers_and_the_first_those_of_one_process() -> None:
    def draw(*seed: int) -> tuple[float, float, float]:
        seed_everything(*seed)
        return torch.rand(1).item(), np.random.rand(), random.random()  # noqa: NPY002

    assert draw(7) == draw(7, 0)
    masks = [draw(7, process) for process in range(4)]
    assert all(len(set(numbers)) == 4 for numbers in zip(*masks, strict=True))
