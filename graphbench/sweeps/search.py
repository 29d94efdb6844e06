"""Searches over configuration keys: the space as written in a sweep file, and the plan that a study is made from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphbench.errors import UserError
from graphbench.sweeps.document import LocatedValue, in_one_line, tied_keys

SEARCH_KEYS = ("low", "high", "log", "choices")
PRUNERS = ("median", "halving", "none")


@dataclass(frozen=True)
class SearchDimension:
    """One dimension of a search space: a configuration key with its choices or its range.

    Attributes:
        key: dotted configuration key; several, joined by commas, take the same value.
        choices: the values, written as on the command line; None where there is a range.
        low: smallest value of a range.
        high: largest value of a range; whole numbers stay whole where both bounds are.
        log: whether the range is sampled in the logarithm.
        where: ``file:line``.
    """

    key: str
    choices: tuple[str, ...] | None
    low: float | None
    high: float | None
    log: bool
    where: str

    @property
    def keys(self) -> tuple[str, ...]:
        """The configuration keys that take its value."""
        return tied_keys(self.key)

    @property
    def example(self) -> str:
        """A value of the space, written as on the command line."""
        return self.choices[0] if self.choices is not None else in_one_line(self.low)


@dataclass(frozen=True)
class SearchPlan:
    """A search over one entry of a sweep; can be pickled and written as JSON.

    Attributes:
        folder: folder of the study and, below it, the run folders of the trials.
        name: name of the entry's configuration, its tag included.
        name_tag: tag of the entry's configuration.
        config_hash: hash of the entry's configuration, whose values the trials change.
        space: dimensions of the search.
        metric: the validation metric that is optimised, at each run's best epoch; mean over a trial's runs.
        maximize: True when larger is better.
        trials: number in all, however they end.
        pruner: one of :data:`PRUNERS`.
        seed: seed of the sampler.
        max_epoch: epochs of a run.
    """

    folder: Path
    name: str
    name_tag: str
    config_hash: str
    space: tuple[SearchDimension, ...]
    metric: str
    maximize: bool
    trials: int
    pruner: str
    seed: int
    max_epoch: int

    @property
    def journal(self) -> Path:
        """The file that holds the study."""
        return self.folder / "study.journal"

    @property
    def best_file(self) -> Path:
        """The configuration of the best trial."""
        return self.folder / f"{self.name}-best.yaml"

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> SearchPlan:
        """Search plan from what ``dataclasses.asdict`` and JSON make of it."""
        space = (
            SearchDimension(**{**dimension, "choices": dimension["choices"] and tuple(dimension["choices"])})
            for dimension in plain["space"]
        )
        return cls(**{**plain, "folder": Path(plain["folder"]), "space": tuple(space)})

    @property
    def same_data(self) -> bool:
        """Whether all trials read the same graphs: no key of the data set is searched over."""
        return not any(key.startswith(("dataset.", "prep.")) for dimension in self.space for key in dimension.keys)

    def tag(self, number: int) -> str:
        """The ``name_tag`` of a trial."""
        return f"{self.name_tag}-trial-{number:03d}".removeprefix("-")


def read_search(section: LocatedValue, fixed: Collection[str] = ()) -> list[SearchDimension]:
    """The block ``search: {KEY: {choices: [...]}, KEY: {low: 1e-4, high: 1e-2, log: true}}``.

    Args:
        section: the block.
        fixed: keys that the command line sets; they are not searched over.

    Raises:
        UserError: anything else.
    """
    dimensions = [_read_dimension(key, value) for key, value in section.mapping("search").items()]
    return [dimension for dimension in dimensions if not set(dimension.keys) & set(fixed)]


def _read_dimension(key: str, space: LocatedValue) -> SearchDimension:
    fields = {name: value.plain() for name, value in space.mapping(f"search over {key}", SEARCH_KEYS).items()}
    if "choices" in fields:
        choices = tuple(choice.as_override() for choice in space.value["choices"].items(f"choices of {key}"))
        if len(fields) > 1:
            raise UserError(f"{space.where}: search over {key} has either choices or low and high, received {fields}.")
        if len(set(choices)) < len(choices):
            raise UserError(f"{space.where}: search over {key} has a choice twice, received {list(choices)}.")
        return SearchDimension(key, choices, None, None, False, space.where)
    try:
        low, high = float(fields["low"]), float(fields["high"])
    except (KeyError, TypeError, ValueError):
        raise UserError(
            f"{space.where}: search over {key} needs choices, or low and high, received {fields}."
        ) from None
    log = fields.get("log", False)
    if type(log) is not bool or not low < high or (log and low <= 0):
        raise UserError(
            f"{space.where}: search over {key} needs low < high, log: true or false, and low > 0 with log, "
            f"received {fields}."
        )
    whole = type(fields["low"]) is int and type(fields["high"]) is int
    return SearchDimension(
        key, None, fields["low"] if whole else low, fields["high"] if whole else high, log, space.where
    )
