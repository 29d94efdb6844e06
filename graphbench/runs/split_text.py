"""Description of the split that runs were made on: protocol, which of how many, sizes."""

from __future__ import annotations

from collections.abc import Sequence

from graphbench.runs.data_facts import DataFacts


def split_texts(data: Sequence[DataFacts], thousands: str = "") -> tuple[str, ...]:
    """One per protocol: ``random 140/500/1000``, ``standard, split 3 of 10, 120/80/51``.

    Of several: ``cv-kfold-10, 10 of 10 splits, 150-152/18-19/18-19`` (sizes of folds differ), or ``cv-kfold-10 of seed
    1, ...`` where ``dataset.split_seed`` is set. Of how many is left out where there is one, where they are drawn, and
    where older records do not say it.

    Args:
        data: facts about the data from the records of some runs.
        thousands: separator.
    """
    by_mode: dict[tuple[str, int], list[DataFacts]] = {}
    for facts in data:
        mode = facts.split_mode or "unknown"
        mode += "" if facts.fold_seed is None else f" of seed {facts.fold_seed}"
        by_mode.setdefault((mode, facts.split_count or 1), []).append(facts)
    return tuple(_text(mode, count, members, thousands) for (mode, count), members in by_mode.items())


def _text(mode: str, count: int, members: Sequence[DataFacts], thousands: str) -> str:
    sizes = [tuple(facts.sizes.values()) for facts in members]
    spans = [(min(part), max(part)) for part in zip(*sizes)]
    written = "/".join("-".join(f"{size:{thousands}}" for size in dict.fromkeys(span)) for span in spans)
    indices = sorted({facts.split_index for facts in members})
    if count == 1 and len(indices) == 1:
        return f"{mode} {written}".strip()
    of = f" of {count}" if count > 1 else ""
    which = f"split {indices[0]}{of}" if len(indices) == 1 else f"{len(indices)}{of} splits"
    return ", ".join(filter(None, (mode, which, written)))
