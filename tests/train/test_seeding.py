"""Seeds of the global random generators."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from graphbench.train.seeding import seed_everything


def draw(seed: int) -> list[float]:
    seed_everything(seed)
    return [torch.rand(1).item(), np.random.standard_normal(), random.random()]  # noqa: NPY002  the global generators


@pytest.mark.parametrize("seed", [0, 41, 2**40])
def test_every_generator_follows_the_seed(seed: int) -> None:
    first = draw(seed)
    assert draw(seed) == first
    assert all(x != y for x, y in zip(draw(seed + 1), first, strict=True))
