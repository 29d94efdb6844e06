"""Random generators go on where a checkpoint left them."""

from __future__ import annotations

import random
from unittest import mock

import numpy as np
import pytest
import torch

from graphbench.train.random_state import random_state, set_random_state
from graphbench.train.seeding import seed_everything

CPU = torch.device("cpu")


def test_random_states_come_back() -> None:
    np.random.standard_normal()  # leaves a second value in store  # noqa: NPY002
    random.gauss(0, 1)
    state = random_state(CPU)

    def draw() -> list[float]:
        return [torch.rand(1).item(), np.random.standard_normal(), random.gauss(0, 1), random.random()]  # noqa: NPY002

    first = draw()
    set_random_state(state, CPU)
    assert draw() == first


@pytest.mark.parametrize("kept", ["one state", "a list of two devices"])
@pytest.mark.parametrize("index", [0, 1])
def test_the_training_goes_on_with_the_state_of_its_device(kept: str, index: int) -> None:
    device, other = torch.device("cuda", index), torch.device("cuda", 1 - index)
    states = {0: torch.zeros(16, dtype=torch.uint8), 1: torch.ones(16, dtype=torch.uint8)}
    with (
        mock.patch("torch.cuda.get_rng_state", side_effect=lambda asked: states[asked.index]),
        mock.patch("torch.cuda.set_rng_state") as put_back,
    ):
        state = random_state(device)
        if kept != "one state":
            set_random_state(state | {"cuda": list(states.values())}, device)
            put_back.assert_called_once_with(states[index], device)
            return
        set_random_state(state, other)
        put_back.assert_called_once_with(states[index], other)
        set_random_state(state, torch.device("cpu"))
        put_back.assert_called_once()


def test_processes_of_one_run_draw_other_numbers_and_the_first_those_of_one_process() -> None:
    def draw(*seed: int) -> tuple[float, float, float]:
        seed_everything(*seed)
        return torch.rand(1).item(), np.random.rand(), random.random()  # noqa: NPY002

    assert draw(7) == draw(7, 0)
    masks = [draw(7, process) for process in range(4)]
    assert all(len(set(numbers)) == 4 for numbers in zip(*masks, strict=True))
