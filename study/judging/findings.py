"""The result of a rule, and steps that several rules share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from graphbench.tables.significance import SIGNIFICANT
from study.judging.quantities import Quantity, Source

HOLDS, FAILS, UNDECIDED, NOT_RUN = "holds", "does not hold", "undecided", "not run"


@dataclass(frozen=True)
class Finding:
    """The result of a rule.

    Attributes:
        state: :data:`HOLDS`, :data:`FAILS`, :data:`UNDECIDED` or :data:`NOT_RUN`.
        text: the numbers, as Markdown.
        tests: z-scores of the comparisons of runs behind it, see :func:`evidence`; above 0: against the claim.
    """

    state: str
    text: str
    tests: tuple[float, ...] = ()

    def fails_among(self, comparisons: int) -> bool:
        """Whether it fails beyond chance where so many comparisons are made (Bonferroni); without runs: whether."""
        if self.state != FAILS:
            return False
        against = [z for z in self.tests if z >= 0]
        return not against or 2 * norm_sf(max(against)) * comparisons < SIGNIFICANT


def read(source: Source, a: str, others: Sequence[str]) -> tuple[Quantity | None, list[Quantity], list[str]]:
    """The quantity of ``a``, those of the others that are known, and the references of the rest."""
    quantities = {reference: source(reference) for reference in others}
    known = [quantity for quantity in quantities.values() if quantity]
    return source(a), known, [reference for reference, quantity in quantities.items() if quantity is None]


def norm_sf(z: float) -> float:
    """Probability that a standard normal variable exceeds z."""
    return math.erfc(z / math.sqrt(2)) / 2


def evidence(ours: Quantity, tests: Sequence[tuple[Quantity, float | None]]) -> list[float]:
    """The comparisons with all rivals as one z-score: that of the one who is ahead most clearly, or behind least.

    Above 0 where it is ahead, after Bonferroni over the rivals: of several that are on a par, one is ahead by chance.
    Wins over weak rivals do not make up for a strong one. None without a test.
    """
    scores = [_z_score(ours, other, p_value) for other, p_value in tests if p_value is not None]
    strongest = max(scores, default=0.0)
    if strongest > 0:
        return [_two_sided(min(2 * norm_sf(strongest) * len(scores), 1.0))]
    return [strongest] if scores else []


def standard_error(of: Sequence[Quantity]) -> float:
    """Of a sum or difference of means of independent runs; printed numbers add none."""
    return math.sqrt(sum((one.std or 0.0) ** 2 / one.n for one in of if one.runs and one.n))


def _z_score(ours: Quantity, other: Quantity, p_value: float) -> float:
    """One comparison, above 0 where ours is worse."""
    return -_two_sided(p_value) if ours.beats(other) else _two_sided(p_value)


def _two_sided(p_value: float) -> float:
    return NormalDist().inv_cdf(1 - max(p_value, 1e-15) / 2)


def against_together(tests: Sequence[float]) -> float:
    """p-value that all comparisons together speak against a claim (Stouffer, one-sided); 1 without any."""
    return norm_sf(sum(tests) / math.sqrt(len(tests))) if tests else 1.0


def significant(ours: Quantity, other: Quantity, p_value: float | None) -> str:
    """Whether ours is better, or worse, beyond chance."""
    if p_value is None or p_value >= SIGNIFICANT:
        return UNDECIDED
    return HOLDS if ours.beats(other) else FAILS


def together(states: Sequence[str], text: str, missing: Sequence[str], tests: Sequence[float] = ()) -> Finding:
    """One that fails decides; all hold only if none is missing."""
    if not states:
        return not_run(missing)
    text += f"; not run: {', '.join(f'`{reference}`' for reference in missing)}" if missing else ""
    for state in (FAILS, UNDECIDED, NOT_RUN):
        if state in states:
            return Finding(state, text, tuple(tests))
    return Finding(UNDECIDED if missing else HOLDS, text, tuple(tests))


def not_run(missing: Sequence[str]) -> Finding:
    """Nothing to compare yet."""
    return Finding(NOT_RUN, ", ".join(f"`{reference}`" for reference in missing))


def in_words(value: float | None) -> str:
    """A p-value."""
    return "no test" if value is None else "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def as_list(value: str | list[str]) -> list[str]:
    """One reference or several."""
    return [value] if isinstance(value, str) else value
