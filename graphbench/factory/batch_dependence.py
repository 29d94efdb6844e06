"""Whether the graphs of a batch change each other's predictions, found out with a configuration's own data."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphbench.config import Config
from graphbench.factory.parts import build_parts
from graphbench.train.seeding import seed_everything

TOLERANCE = 1e-3
"""Differences beside the largest prediction that may be roundings of float32."""

_GRAPHS = 8  # that are compared, at most


@dataclass(frozen=True)
class BatchDependence:
    """Predictions of some graphs in evaluation, once as one batch and once graph by graph.

    Attributes:
        graphs: number of graphs.
        change: largest difference, beside the largest prediction.
        is_random: whether the same batch has other predictions the next time, so that ``change`` says nothing.
    """

    graphs: int
    change: float
    is_random: bool

    def __str__(self) -> str:
        if self.is_random:
            return "predictions are random in evaluation: whether graphs of a batch change each other's is not known"
        if self.change <= TOLERANCE:
            return f"graphs of a batch do not change each other's predictions ({self.graphs} graphs: {self.change:.0e})"
        return (
            f"warning: graphs of a batch change each other's predictions, by {self.change:.0%} of the largest: "
            "something sums over a whole batch; sum per graph (batch.ragged, graphbench.ops.segment)"
        )


@torch.no_grad()
def batch_dependence(config: Config) -> BatchDependence | None:
    """The comparison for the first graphs of the data set and a model with fresh parameters; None for a single graph.

    Args:
        config: a loaded configuration.
    """
    parts = build_parts(config)
    store, model = parts.loaded.store, parts.model.eval()
    if store.num_graphs < 2:
        return None
    numbers = torch.arange(min(_GRAPHS, store.num_graphs))

    def predicted(seed: int, size: int) -> Tensor:
        seed_everything(seed)
        rows = [model(store.gather(piece).to(parts.fabric.device)) for piece in numbers.split(size)]
        return torch.cat(rows).double()

    together, again, alone = predicted(0, _GRAPHS), predicted(1, _GRAPHS), predicted(0, 1)
    size = together.abs().max().clamp(min=1e-30)
    change, noise = (float((each - together).abs().max() / size) for each in (alone, again))
    return BatchDependence(len(numbers), change, noise > TOLERANCE)
