"""Shares of the samplers of ANS-GT: an adversarial bandit (https://arxiv.org/abs/2210.03930, section 4.1)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from graphbench.contract import CountsOnHost
from graphbench.models.ans_gt.sampling_tables import SAMPLERS


class SamplerBandit(CountsOnHost, nn.Module):
    r"""Shares p of the samplers, and the rounds between their updates.

    After ``period`` training steps, with r_m the mean over sequences of sum_j a_j w_m(j) / sum_l p_l w_l(j):

    .. math:: u_m \leftarrow u_m \exp(\eta (r_m + \gamma / p_m)), \qquad
        p_m = (1 - 4 p_{min}) \frac{u_m}{\sum_l u_l} + p_{min}

    Everything is in the state, so that a resumed run draws what it would have drawn.

    Args:
        period: training steps of a round; 0: one round without end.
        least: p_min.
        rate: eta.
        exploration: gamma.
    """

    counters: ClassVar[tuple[str, ...]] = ("seed", "round", "steps")
    log_weights: Tensor
    reward: Tensor

    def __init__(self, period: int, least: float, rate: float, exploration: float) -> None:
        super().__init__()
        self.period, self.least, self.rate, self.exploration = period, least, rate, exploration
        for name in ("log_weights", "reward"):
            self.register_buffer(name, torch.zeros(len(SAMPLERS)))
        self.steps, self.round = 0, 0
        self.seed = int(torch.randint(2**31, (), device="cpu"))

    @property
    def key(self) -> tuple[int, int]:
        """Seed and number of the round, which decide its random stream beside the shares."""
        return self.seed, self.round

    def shares(self) -> Tensor:
        """(4,) p, in the order of :data:`SAMPLERS`."""
        return (1 - len(SAMPLERS) * self.least) * self.log_weights.softmax(0) + self.least

    @torch.no_grad()
    def add(self, significance: Tensor, weight: Tensor) -> None:
        """Adds the mean reward of the sequences of a training step.

        Args:
            significance: (S, K) a of the drawn nodes, 0 where none was drawn.
            weight: (S, K, 4) w of the samplers.
        """
        if not len(weight):
            return
        mixture = (weight @ self.shares()).unsqueeze(2) + 1e-5
        self.reward += (significance.unsqueeze(2) * weight / mixture).sum((0, 1)) / len(weight)

    @torch.no_grad()
    def end_step(self) -> None:
        """Counts a training step, and begins a new round after the last one of a round."""
        self.steps += 1
        if self.steps < self.period:
            return
        self.log_weights += self.rate * (self.reward / self.period + self.exploration / self.shares())
        self.log_weights -= self.log_weights.max()
        self.round += 1
        self.steps = 0
        self.reward.zero_()
