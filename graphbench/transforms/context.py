"""Values of the configuration that transforms may take."""

from __future__ import annotations

from dataclasses import dataclass

from graphbench.registry import UNSET


@dataclass(frozen=True)
class TransformContext:
    """Values for transforms; everything else is an argument of the layer or encoder that reads the transform.

    Attributes:
        edge_types: ``dataset.edge_encoder_num_types``, None for the data set's own.
    """

    edge_types: int | None = UNSET
