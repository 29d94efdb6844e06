"""Result of a benchmark."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """Paired measurements of one situation.

    Attributes:
        name: name of what was measured.
        peer_name: implementation or limit that it is compared with.
        ours: our values in ``unit``, one per pair.
        peer: values of the peer, in ``unit``, one per pair.
        target: smallest acceptable ratio peer / ours.
        unit: ``"s"`` or ``"MiB"``.
    """

    name: str
    peer_name: str
    ours: list[float]
    peer: list[float]
    target: float
    unit: str = "s"
