"""Result of a benchmark."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """Paired measurements of one situation.

    Attributes:
        name: what was measured.
        peer_name: implementation or limit that it is compared with.
        ours: in ``unit``, one per pair.
        peer: the same of the peer.
        target: smallest acceptable ratio peer / ours.
        unit: ``"s"`` or ``"MiB"``.
    """

    name: str
    peer_name: str
    ours: list[float]
    peer: list[float]
    target: float
    unit: str = "s"
