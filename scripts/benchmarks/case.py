"""What a benchmark hands back."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """Paired measurements of one situation.

    Attributes:
        name: what was measured.
        peer_name: what it was measured against.
        ours: seconds, one per pair.
        peer: seconds, one per pair.
        target: smallest acceptable ratio peer / ours.
    """

    name: str
    peer_name: str
    ours: list[float]
    peer: list[float]
    target: float
