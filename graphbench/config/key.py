"""One configuration key, and the reasons why some keys are accepted without effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

NO_EFFECT = "accepted for compatibility with GraphGPS files; it has no effect here"
AT_RUN_TIME = "set at run time in GraphGPS; nothing reads it here"
DEAD = "declared by the LRGB fork, where no code reads it"


@dataclass(frozen=True)
class Key:
    """One configuration key.

    Attributes:
        default: value when no file sets the key; its type is the type of the key unless ``holds`` says otherwise.
        help: one line for the reference.
        holds: bool, int, float, str or list; needed only where the default is None.
        allowed: the valid values of a closed list.
        pattern: regular expression of texts that are valid besides.
        minimum: smallest valid number (included), in a list of every element.
        maximum: largest valid number (included), in a list of every element.
        optional: None is valid as well.
        no_limit: infinity is valid, too: it stands for no limit.
        switched_on: number that ``true`` stands for in an integer key, ``false`` being 0; None: neither is valid.
        item: type of the elements of a list; None: any.
        namespaces: namespaces of the registry that know the value; names joined by ``+`` are looked up one by one.
        extra: further valid names, which no namespace holds.
        only_with: keys, and values of them, with any of which alone it has an effect; no values: any but the default.
        neutral: does not influence results, so it is left out of the configuration hash.
        inert: why setting it changes nothing here; the log says so once.
    """

    default: Any
    help: str
    holds: type | None = None
    allowed: Sequence[Any] | None = None
    pattern: str = ""
    minimum: float | None = None
    maximum: float | None = None
    optional: bool = False
    no_limit: bool = False
    switched_on: int | None = None
    item: type | None = None
    namespaces: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    only_with: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    neutral: bool = False
    inert: str = ""

    @property
    def kind(self) -> type:
        """The type a value must have."""
        return self.holds or type(self.default)
