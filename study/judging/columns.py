"""Rule on whole tables: the number of columns in which some models are best."""

from __future__ import annotations

from collections.abc import Sequence

from study.judging.findings import FAILS, HOLDS, Finding
from study.judging.quantities import Quantity, cells


def best_of_table(
    tables: Sequence[str], models: Sequence[str], sets: tuple[str, ...], least: int, top: int, ties: bool
) -> Finding:
    """Whether one of ``models`` is among the first ``top`` in ``least`` columns; ``ties``: a shared rank counts."""
    won, lost = [], []
    for table in tables:
        for (dataset, _, setting), column in cells(table, sets).items():
            candidates = [quantity for model, quantity in column.items() if model in models]
            if not candidates:
                continue
            ours = _best(candidates)
            ahead = [other for model, other in column.items() if model not in models and not ours.beats(other)]
            if ties:
                ahead = [other for other in ahead if other.beats(ours)]
            name = f"{dataset} {setting}".strip()
            if len(ahead) < top:
                won.append(name)
            else:
                first = _best(ahead)
                lost.append(f"{name}: {first.name} {first.shown} against {ours.shown}")
    state = HOLDS if len(won) >= least else FAILS
    among = "best" if top == 1 else f"among the first {top}"
    text = f"{' or '.join(models)} {among} in {len(won)} of {len(won) + len(lost)} columns, {least} needed"
    if lost:
        text += ". Not: " + "; ".join([*lost[:6], *(["..."] if len(lost) > 6 else [])])
    return Finding(state, text)


def _best(quantities: Sequence[Quantity]) -> Quantity:
    """The first that none beats."""
    return next(one for one in quantities if not any(other.beats(one) for other in quantities))
