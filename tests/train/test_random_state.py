"""Random generators go on where a checkpoint left them."""

from __future__ import annotations

import random

import numpy as np
import torch

from graphbench.train.random_state import random_state, set_random_state


def test_random_states_come_back() -> None:
    np.random.standard_normal()  # leaves a second value in store  # noqa: NPY002
    random.gauss(0, 1)
    state = random_state()

    def draw() -> list[float]:
        return [torch.rand(1).item(), np.random.standard_normal(), random.gauss(0, 1), random.random()]  # noqa: NPY002

    first = draw()
    set_random_state(state)
    assert draw() == first
