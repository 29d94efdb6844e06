"""Search spaces of sweep files: data for a search by a library such as Optuna; the local launcher runs none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphbench.errors import UserError
from graphbench.sweeps.document import Placed

SEARCH_KEYS = ("low", "high", "log", "choices")


@dataclass(frozen=True)
class Search:
    """One key to be searched over.

    Attributes:
        key: dotted configuration key.
        choices: the values; None where there is a range.
        low: smallest value of a range.
        high: largest value of a range; whole numbers stay whole where both bounds are.
        log: whether the range is walked in ratios.
        where: ``file:line``.
    """

    key: str
    choices: tuple[Any, ...] | None
    low: float | None
    high: float | None
    log: bool
    where: str


def read_search(section: Placed) -> list[Search]:
    """The block ``search: {KEY: {choices: [...]}, KEY: {low: 1e-4, high: 1e-2, log: true}}``.

    Raises:
        UserError: anything else.
    """
    return [_one(key, space) for key, space in section.mapping("search").items()]


def _one(key: str, space: Placed) -> Search:
    parts = {name: each.plain() for name, each in space.mapping(f"search over {key}", SEARCH_KEYS).items()}
    if "choices" in parts:
        choices = space.value["choices"].items(f"choices of {key}")
        if len(parts) > 1:
            raise UserError(f"{space.where}: search over {key} has either choices or low and high, received {parts}.")
        return Search(key, tuple(each.plain() for each in choices), None, None, False, space.where)
    try:
        low, high = float(parts["low"]), float(parts["high"])
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{space.where}: search over {key} needs choices, or low and high, received {parts}.") from None
    log = parts.get("log", False)
    if type(log) is not bool or not low < high or (log and low <= 0):
        raise UserError(
            f"{space.where}: search over {key} needs low < high, log: true or false, and low > 0 with log, "
            f"received {parts}."
        )
    whole = type(parts["low"]) is int and type(parts["high"]) is int
    return Search(key, None, parts["low"] if whole else low, parts["high"] if whole else high, log, space.where)
