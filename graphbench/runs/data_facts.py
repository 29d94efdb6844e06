"""Facts about the data that a run was trained on, as its record keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphbench.runs.field_types import check_field_types


@dataclass(frozen=True)
class PretrainedFacts:
    """Pretrained run that a run started from.

    Attributes:
        run: folder of the run whose parameters it took.
        judged: examples that each model of the lineage is judged on, in words.
    """

    run: str
    judged: tuple[str, ...] = ()


@dataclass(frozen=True)
class DataFacts:
    """Data set and split of a run. Records of earlier versions, and those of other programs, may know less.

    Attributes:
        name: data set, as printed in tables.
        fingerprint: digest of the graphs.
        split_mode: ``dataset.split_mode``.
        split_index: ``dataset.split_index``.
        split_count: number of splits that there are; None: an earlier version, which did not say.
        split_seed: seed that the split was drawn with; None: it was not drawn.
        sizes: examples by part.
        fold_seed: ``dataset.split_seed`` of shuffled folds.
        pretrained: run that it started from; None: none.
    """

    name: str | None = None
    fingerprint: str | None = None
    split_mode: str | None = None
    split_index: int = 0
    split_count: int | None = None
    split_seed: int | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    fold_seed: int | None = None
    pretrained: PretrainedFacts | None = None

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> DataFacts:
        """Inverse of :meth:`plain`; facts of later versions are ignored."""
        facts = {name: value for name, value in plain.items() if name in cls.__dataclass_fields__}
        started = facts.get("pretrained")
        if started is not None:
            facts["pretrained"] = PretrainedFacts(started["run"], tuple(started.get("judged", ())))
        made = cls(**facts)
        check_field_types(made)
        return made

    def plain(self) -> dict[str, Any]:
        """For JSON, without what is not known."""
        started = self.pretrained
        facts = {
            "name": self.name,
            "fingerprint": self.fingerprint,
            "split_mode": self.split_mode,
            "split_index": None if self.split_mode is None else self.split_index,
            "split_count": self.split_count,
            "split_seed": self.split_seed,
            "sizes": dict(self.sizes) or None,
            "fold_seed": self.fold_seed,
            "pretrained": None if started is None else {"run": started.run, "judged": list(started.judged)},
        }
        not_drawn = {"split_seed"} if self.split_count is not None else set()  # null is a fact there
        return {name: value for name, value in facts.items() if value is not None or name in not_drawn}

    @property
    def input_name(self) -> str:
        """Name of the split among the inputs of a run: runs that share it must have the same examples."""
        if self.split_seed is None:
            return f"split {self.split_index}"
        seed = self.split_seed
        return f"split {self.split_index} of seed {seed}" if self.split_index else f"split of seed {seed}"

    @property
    def split(self) -> tuple[object, ...]:
        """Everything that tells the split from another one."""
        return self.split_mode, self.split_index, self.split_seed, self.fold_seed, dict(self.sizes)

    @property
    def split_text(self) -> str:
        """``random, index 0, seed 3``."""
        seed = self.split_seed if self.fold_seed is None else self.fold_seed
        return f"{self.split_mode}, index {self.split_index}" + ("" if seed is None else f", seed {seed}")
