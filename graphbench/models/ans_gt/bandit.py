"""Shares of the samplers of ANS-GT: an adversarial bandit (https://arxiv.org/abs/2210.03930, section 4.1)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphbench.models.ans_gt.surroundings import SAMPLERS


class SamplerBandit(nn.Module):
    r"""Shares p of the samplers, and the rounds between their updates.

    After ``period`` training steps, with r_m the mean over sequences of sum_j a_j w_m(j) / sum_l p_l w_l(j):

    .. math:: u_m \leftarrow u_m \exp(\eta (r_m + \gamma / p_m)), \qquad
        p_m = (1 - 4 p_{min}) \frac{u_m}{\sum_l u_l} + p_{min}

    Everything is a buffer, so that a resumed run draws what it would have drawn. Counters are read on the host.

    Args:
        period: training steps of a round; 0: one round without end.
        least: p_min.
        rate: eta.
        exploration: gamma.
    """

    log_weights: Tensor
    reward: Tensor
    steps: Tensor
    round: Tensor
    seed: Tensor

    def __init__(self, period: int, least: float, rate: float, exploration: float) -> None:
        super().__init__()
        self.period, self.least, self.rate, self.exploration = period, least, rate, exploration
        for name in ("log_weights", "reward"):
            self.register_buffer(name, torch.zeros(len(SAMPLERS)))
        for name in ("steps", "round"):
            self.register_buffer(name, torch.zeros((), dtype=torch.int64))
        self.register_buffer("seed", torch.randint(2**31, ()))

    @property
    def key(self) -> tuple[int, int]:
        """What decides the random stream of a round, beside the shares."""
        return int(self.seed), int(self.round)

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
        if int(self.steps) < self.period:
            return
        self.log_weights += self.rate * (self.reward / self.period + self.exploration / self.shares())
        self.log_weights -= self.log_weights.max()
        self.round += 1
        self.steps.zero_()
        self.reward.zero_()
