"""The result of a rule, and steps that several rules share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphbench.tables.significance import SIGNIFICANT
from study.judging.quantities import Quantity, Source

HOLDS, FAILS, UNDECIDED, NOT_RUN = "holds", "does not hold", "undecided", "not run"


@dataclass(frozen=True)
class Finding:
    """The result of a rule.

    Attributes:
        state: :data:`HOLDS`, :data:`FAILS`, :data:`UNDECIDED` or :data:`NOT_RUN`.
        text: the numbers, as Markdown.
    """

    state: str
    text: str


def read(source: Source, a: str, others: Sequence[str]) -> tuple[Quantity | None, list[Quantity], list[str]]:
    """The quantity of ``a``, those of the others that are known, and the references of the rest."""
    quantities = {reference: source(reference) for reference in others}
    known = [quantity for quantity in quantities.values() if quantity]
    return source(a), known, [reference for reference, quantity in quantities.items() if quantity is None]


def significant(ours: Quantity, other: Quantity, p_value: float | None) -> str:
    """Whether ours is better, or worse, beyond chance."""
    if p_value is None or p_value >= SIGNIFICANT:
        return UNDECIDED
    return HOLDS if ours.beats(other) else FAILS


def together(states: Sequence[str], text: str, missing: Sequence[str]) -> Finding:
    """One that fails decides; all hold only if none is missing."""
    if not states:
        return not_run(missing)
    text += f"; not run: {', '.join(f'`{reference}`' for reference in missing)}" if missing else ""
    for state in (FAILS, UNDECIDED, NOT_RUN):
        if state in states:
            return Finding(state, text)
    return Finding(UNDECIDED if missing else HOLDS, text)


def not_run(missing: Sequence[str]) -> Finding:
    """Nothing to compare yet."""
    return Finding(NOT_RUN, ", ".join(f"`{reference}`" for reference in missing))


def in_words(value: float | None) -> str:
    """A p-value."""
    return "no test" if value is None else "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def as_list(value: str | list[str]) -> list[str]:
    """One reference or several."""
    return [value] if isinstance(value, str) else value
