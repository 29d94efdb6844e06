"""Values that samplers of one large graph are filled from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphbench.data.large.loader import LoaderOptions
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.registry import UNSET


@dataclass(frozen=True)
class SamplerContext:
    """What a sampler (``train.sampler``) can ask for.

    Attributes:
        store: one graph with a target per node.
        splits: node numbers.
        options: process, evaluation and parts, see :class:`~graphbench.data.large.loader.LoaderOptions`.
        batch_size: ``train.batch_size``.
        sizes: neighbours per hop, -1 for all (``train.neighbor_sizes``).
        walk_length: steps of a walk (``train.walk_length``).
        iterations: batches of an epoch, of all processes together (``train.iter_per_epoch``).
        coverage: average number of times that a node is sampled before training (``train.sample_coverage``).
    """

    store: GraphStore = UNSET
    splits: Splits = UNSET
    options: LoaderOptions = UNSET
    batch_size: int = UNSET
    sizes: Sequence[int] = UNSET
    walk_length: int = UNSET
    iterations: int = UNSET
    coverage: int = UNSET
