"""Seeds of all global random generators."""

from __future__ import annotations

import random

import numpy as np
import torch

PROCESS_STEP = 1_000_003
"""Between the seeds of two processes of one run, so that they draw different numbers (dropout)."""


def seed_everything(seed: int, process: int = 0) -> None:
    """Seeds torch (all devices), numpy and Python.

    Args:
        seed: seed of the run.
        process: rank in a data-parallel run, where processes are to draw different numbers.
    """
    seed += process * PROCESS_STEP
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002  for plug-ins and libraries that draw from the global generator
    random.seed(seed)
