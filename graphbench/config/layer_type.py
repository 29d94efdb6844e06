"""Names joined by ``+``: the sublayers of ``gt.layer_type``, the encoders of ``dataset.node_encoder_name``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LEFT_OUT = ("None", "none", "")
"""Names that stand for nothing."""


@dataclass(frozen=True)
class LayerSpec:
    """One name of ``a+b``: a component, and the edge set it works on (``name__edges``, ``name__edges__attribute``).

    Attributes:
        name: name of the component.
        edges: name of the edge set; None for the edges of the graphs.
        attribute: name of the attribute that describes those pairs; None where they are used without.
    """

    name: str
    edges: str | None = None
    attribute: str | None = None

    @property
    def left_out(self) -> bool:
        """Whether it stands for nothing."""
        return self.name in LEFT_OUT


def layer_specs(value: str) -> list[LayerSpec]:
    """The names of ``a+b`` in order, those that are left out included."""
    return [LayerSpec(*name.strip().split("__", 2)) for name in value.split("+")]


def component_names(value: str | Sequence[str]) -> list[str]:
    """The component names in ``a+b`` (or in a list of names), without those left out."""
    names = [spec.name for spec in layer_specs(value)] if isinstance(value, str) else list(value)
    return [name for name in names if name not in LEFT_OUT]
