"""The problem whose solution is a flow: everything that weights follow from, checked."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from graphbench.ops.backend import compute_dtype
from graphbench.structures import Ragged

MODES = ("exact", "proximal", "dense")
STEPS = ("safe", "bb")


@dataclass(frozen=True)
class FlowProblem:
    """Arguments of :func:`graphbench.ops.sparse_flow.sparse_flow` without values; described there.

    Raises:
        ValueError: shapes do not fit each other, a value is out of its range or a name is unknown.
    """

    q: Tensor
    k: Tensor
    q_friction: Tensor | None
    k_friction: Tensor | None
    ragged: Ragged
    lam: Tensor
    alpha: float = 0.1
    mode: str = "exact"
    iters: int = 20
    step: str = "safe"

    def __post_init__(self) -> None:
        rows, q, k = self.ragged.num_rows, self.q, self.k
        if self.mode not in MODES:
            raise ValueError(f"mode of sparse_flow must be one of {list(MODES)}, received {self.mode!r}")
        if q.dim() != 3 or q.shape[0] != rows or k.shape != q.shape:
            raise ValueError(f"q, k must be ({rows}, H, d), received {tuple(q.shape)}, {tuple(k.shape)}")
        if self.mode != "dense":
            self._check_friction()
        if self.mode == "proximal":
            self._check_iteration()

    def _check_friction(self) -> None:
        expected, graphs = tuple(self.q.shape), self.ragged.num_graphs
        received = [None if x is None else tuple(x.shape) for x in (self.q_friction, self.k_friction)]
        if received != [expected, expected]:
            raise ValueError(f"q_friction, k_friction must be {expected} as q, received {received[0]}, {received[1]}")
        if self.lam.shape not in ((), (graphs,)):
            raise ValueError(f"lam must be () or ({graphs},), one per graph, received {tuple(self.lam.shape)}")
        if not self.alpha > 0:
            raise ValueError(f"alpha must be positive (inf included), received {self.alpha}")

    def _check_iteration(self) -> None:
        if self.step not in STEPS:
            raise ValueError(f"step of sparse_flow must be one of {list(STEPS)}, received {self.step!r}")
        if self.iters < 1:
            raise ValueError(f"iters must be at least 1, received {self.iters}")
        if math.isinf(self.alpha):
            raise ValueError("mode 'proximal' needs a finite alpha (its step is 1 / (max r + alpha n)), received inf")

    def arguments(self) -> dict[str, Any]:
        """Arguments of :func:`graphbench.ops.sparse_flow.sparse_flow` by name, all but its values."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def friction(self) -> tuple[Tensor, Tensor]:
        """Queries and keys of the friction, which every mode but ``"dense"`` has."""
        assert self.q_friction is not None, "checked by the constructor"
        assert self.k_friction is not None, "checked by the constructor"
        return self.q_friction, self.k_friction

    @property
    def lam_G(self) -> Tensor:
        """(G,) lam of every graph, in the type that flows are computed in."""
        return self.lam.to(self.q.device, compute_dtype(self.q)).expand(self.ragged.num_graphs)

    def full_precision(self) -> torch.autocast:
        """A context without autocast: scores are widened inside, and it would cut them again."""
        return torch.autocast(self.q.device.type, enabled=False)
