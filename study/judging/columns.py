"""In how many columns of a printed table some models are best."""

from __future__ import annotations

from collections.abc import Sequence

from study.judging.findings import FAILS, HOLDS, Finding
from study.judging.quantities import cells


def best_of_table(
    tables: Sequence[str], models: Sequence[str], sets: tuple[str, ...], least: int, top: int, ties: bool
) -> Finding:
    """Whether one of ``models`` is among the first ``top`` in ``least`` columns; ``ties``: shared places count."""
    won, lost = [], []
    for table in tables:
        for (dataset, _, setting), column in cells(table, sets).items():
            mine = [quantity for model, quantity in column.items() if model in models]
            if not mine:
                continue
            ours = next(each for each in mine if not any(other.beats(each) for other in mine))
            ahead = [each for model, each in column.items() if model not in models and not ours.beats(each)]
            if ties:
                ahead = [each for each in ahead if each.beats(ours)]
            place = f"{dataset} {setting}".strip()
            if len(ahead) < top:
                won.append(place)
            else:
                first = next(each for each in ahead if not any(other.beats(each) for other in ahead))
                lost.append(f"{place}: {first.name} {first.shown} against {ours.shown}")
    state = HOLDS if len(won) >= least else FAILS
    among = "best" if top == 1 else f"among the first {top}"
    text = f"{' or '.join(models)} {among} in {len(won)} of {len(won) + len(lost)} columns, {least} needed"
    return Finding(state, text + (". Not: " + "; ".join(lost[:6]) + "; ..." * (len(lost) > 6) if lost else ""))
