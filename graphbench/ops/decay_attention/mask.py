"""The decay mask: a factor between 0 and 1 (and more below the start point) for every pair of nodes and head."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from graphbench.structures.pairs import TOKEN, UNREACHABLE

FAR = 510.0
"""Distance of pairs without a path in the released code."""

NEVER = -1e30
"""Stands for ln 0: its exponential is 0, and a row of nothing else still has a softmax."""

ALLOWED = {
    "kind": ("exponential", "linear"),
    "mask_on": ("scores", "probs"),
    "unreachable": ("far", "full", "mask"),
}


@dataclass(frozen=True)
class Decay:
    """Decay of attention with distance; see :func:`graphbench.ops.decay_attention.decay_attention`.

    Raises:
        ValueError: an argument is out of range, or ``end`` is missing.
    """

    decay: float
    slope: float = 0.0
    kind: str = "exponential"
    end: float | None = None
    mask_on: str = "scores"
    unreachable: str = "far"

    def __post_init__(self) -> None:
        for name, allowed in ALLOWED.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, received '{getattr(self, name)}'")
        for name in ("decay", "slope"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must lie in [0, 1], received {getattr(self, name)}")
        if self.kind == "exponential" and self.decay == 0 and self.slope:
            raise ValueError(f"decay 0 needs slope 0 (0 to a negative power is infinite), received slope {self.slope}")
        if self.kind == "linear" and self.end is None:
            raise ValueError("kind linear needs end, the distance from which on the mask is 0, received none")

    @property
    def log_decay(self) -> float:
        """Ln lambda."""
        return math.log(self.decay) if self.decay else NEVER

    def fall(self, start: Tensor) -> Tensor:
        """Distances from the start points of a linear mask to its end."""
        assert self.end is not None
        return self.end - start

    def width(self, start: Tensor) -> Tensor:
        """Over how much distance a linear mask falls; at least 1, so that a start point may pass the end."""
        return self.fall(start).clamp(min=1.0)

    def factors(self, index: Tensor, start: Tensor) -> Tensor:
        """M for every pair, differentiable in ``start``.

        Args:
            index: (P,) uint8 or floating, see :func:`~graphbench.ops.decay_attention.decay_attention`.
            start: (H,).

        Returns:
            (P, H) of the type of ``start``; 1 where ``unreachable`` is ``mask`` and there is no path.
        """
        x = leaky_relu(distances(index, start.dtype)[:, None] - start, self.slope)
        factors = torch.exp(self.log_decay * x) if self.kind == "exponential" else (1 - x / self.width(start)).relu()
        kept = without_decay(index, self.unreachable)
        return factors if kept is None else factors.masked_fill(kept[:, None], 1.0)

    @property
    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of :func:`~graphbench.ops.decay_attention.decay_attention`."""
        return dataclasses.asdict(self)

    def weights(self, q: Tensor, k: Tensor, index: Tensor, start: Tensor) -> Tensor:
        """(H, n, n) attention weights inside one graph, from (n, H, d) queries and keys and (n^2,) distances."""
        scores = torch.einsum("ihd,jhd->hij", q, k) / math.sqrt(q.shape[2])
        factors = self.factors(index, start.to(q.dtype)).view(len(q), len(q), q.shape[1]).permute(2, 0, 1)
        damped = self.damped(scores, factors)
        if self.unreachable == "mask":
            damped = damped.masked_fill(no_path(index).view(len(q), len(q)), -torch.inf)
        return torch.softmax(damped, dim=-1)

    def damped(self, scores: Tensor, factors: Tensor) -> Tensor:
        """Argument of the softmax: scores times M, or plus ln M, which is M times the softmax, rows renormalised."""
        if self.mask_on == "scores":
            return scores * factors
        positive = factors > 0
        return scores + torch.where(positive, factors.masked_fill(~positive, 1.0).log(), NEVER)


def distances(index: Tensor, dtype: torch.dtype) -> Tensor:
    """Psi as numbers, :data:`FAR` where there is no path."""
    return index.to(dtype).masked_fill(no_path(index), FAR)


def no_path(index: Tensor) -> Tensor:
    """Pairs without a path."""
    return index == UNREACHABLE if index.dtype == torch.uint8 else index.isinf()


def without_decay(index: Tensor, unreachable: str) -> Tensor | None:
    """Pairs whose M is 1 whatever the start point; None where there can be none."""
    kept = no_path(index) if unreachable != "far" else None
    if index.dtype == torch.uint8:
        kept = index == TOKEN if kept is None else kept | (index == TOKEN)
    return kept
