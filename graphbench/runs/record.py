"""One record per run: everything needed to believe a number, in one JSON file."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from graphbench import atomic
from graphbench.config.config import flat
from graphbench.config.run_keys import INFERENCE_MODES
from graphbench.config.settings import describe_differences, settings_hash, settings_of
from graphbench.runs import json_text
from graphbench.runs.data_facts import DataFacts
from graphbench.runs.environment import changes, environment
from graphbench.runs.field_types import check_field_types
from graphbench.runs.identity import RunIdentity

SCHEMA_VERSION = 2
"""2 since records hold the settings of their configuration."""
_WHICH_RUNS = ("seed", "run_multiple_splits", "dataset.split_index")
Status = Literal["running", "finished", "failed", "interrupted", "pruned"]
STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass(frozen=True)
class Score:
    """One number read at the best validation epoch.

    Attributes:
        split: ``train``, ``val`` or ``test``.
        name: metric, or ``loss``.
        value: value that the metric gives (a share for accuracies, not per cent).
        maximize: True when larger is better.
        count: rows (graphs, nodes, ...) it was computed over.
    """

    split: str
    name: str
    value: float
    maximize: bool
    count: int


@dataclass(frozen=True)
class Outcome:
    """Outcome that a training loop hands back when it has come to its end.

    Attributes:
        reason: ``max_epoch``, ``early stopping`` or ``min_lr``.
        best_epoch: epoch with the best validation metric (the first of equals), counted from 0.
        epochs: epochs trained.
        scores: everything computed at ``best_epoch``.
        params: number of trainable parameters.
        time_per_epoch: seconds, mean over the epochs.
        total_time: seconds spent in the loop, over all resumptions.
        peak_memory: bytes, or None where unknown.
        undefined: why a metric of ``scores`` is NaN: split -> metric -> reason.
        curves: split -> sha256 of its ``stats.json``.
        approximation_error: see :class:`RunRecord`.
    """

    reason: str
    best_epoch: int
    epochs: int
    scores: tuple[Score, ...]
    params: int
    time_per_epoch: float
    total_time: float
    peak_memory: int | None
    undefined: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    curves: Mapping[str, str] = field(default_factory=dict)
    approximation_error: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class RunRecord:
    """Content of ``record.json``.

    Attributes:
        config: name of the configuration.
        config_hash: hash of ``settings``.
        seed: seed of this run.
        settings: values that tell the configuration from another, see :mod:`graphbench.config.settings`.
        run_id: folder of this run: the seed, or the split index where a run is repeated over splits.
        status: one of :data:`STATUSES`.
        reason: why it stopped: ``max_epoch``, ``early stopping``, ``min_lr``, or the message of the failure.
        metric: the metric that is compared, and that selected the epoch unless ``metric_best`` is the loss.
        maximize: True when larger is better.
        best_epoch: the selected epoch, counted from 0.
        epochs: epochs trained.
        scores: values at the best validation epoch.
        params: number of trainable parameters.
        time_per_epoch: seconds, mean over the epochs (training and evaluation).
        total_time: seconds spent in the loop, over all resumptions.
        peak_memory: bytes; of the GPU, or resident memory of the process without one.
        undefined: why a metric of ``scores`` has no value: split -> metric -> reason.
        curves: split -> sha256 of its ``stats.json``, see :func:`graphbench.runs.history.read_lines`.
        data: data set and split.
        inputs: digest of everything it was made of, see :class:`~graphbench.runs.identity.RunIdentity`.
        environment: facts of the latest start, see :func:`graphbench.runs.environment.environment`; under ``before``
            those that were others at the starts before, in their order.
        commits: all that it ran under, in their order, each with a plus where the code had changes.
        started: ISO date of the first start, UTC.
        ended: ISO date of the last end, UTC.
        resumed: number of times that the run was taken up again.
        together: runs that shared process and device at the latest start: above 1 times and memory are those of all.
        approximation: parts that the predictions on validation and test leave out, in words; None: nothing.
        approximation_error: split -> metric -> its value on those predictions minus that on exact ones, and under
            ``predictions`` |approximate - exact| / |exact| over all of them; empty where it was not measured.
        sampling: partition that training batches were cut along, where settings do not say it.
        schema_version: version of this format.
    """

    config: str
    config_hash: str
    seed: int
    run_id: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    status: Status = "running"
    reason: str | None = None
    metric: str | None = None
    maximize: bool | None = None
    best_epoch: int | None = None
    epochs: int = 0
    scores: tuple[Score, ...] = ()
    params: int | None = None
    time_per_epoch: float | None = None
    total_time: float | None = None
    peak_memory: int | None = None
    undefined: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    curves: Mapping[str, str] = field(default_factory=dict)
    data: DataFacts = field(default_factory=DataFacts)
    inputs: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    commits: tuple[str, ...] = ()
    started: str | None = None
    ended: str | None = None
    resumed: int = 0
    together: int = 1
    approximation: str | None = None
    approximation_error: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    sampling: str | None = None
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        """Refuses a status outside the vocabulary."""
        if self.status not in STATUSES:
            raise ValueError(f"status must be one of {STATUSES}, received {self.status!r}")

    @classmethod
    def start(cls, *, previous: RunRecord | None = None, **facts: Any) -> RunRecord:
        """The record of a run that begins now, or is taken up again.

        Args:
            previous: the record found in the folder when the run resumes.
            **facts: fields known at the start (config, config_hash, seed, run_id, params, data, metric, ...).
        """
        facts = {"environment": environment(), "started": _now(), **facts}
        if previous is not None:
            before = previous.environment.get("before", [])
            changed = changes(previous.environment, facts["environment"])
            if changed:
                before = [*before, {fact: then for fact, (then, _) in changed.items()}]
            facts |= {"started": previous.started, "resumed": previous.resumed + 1}
            facts["environment"] = {**facts["environment"], **({"before": before} if before else {})}
        commits = (*(previous.all_commits if previous else ()), commit_text(facts["environment"]))
        return cls(**facts, commits=tuple(dict.fromkeys(commits)))

    @property
    def identity(self) -> RunIdentity:
        """Identity of the run; of older records as much as they say."""
        known = {"data": self.data.fingerprint, **self.inputs}
        if self.settings.get("run_multiple_splits"):
            known["seed"] = str(self.seed)
        return RunIdentity(self.config_hash, {name: digest for name, digest in known.items() if digest})

    @property
    def fingerprint(self) -> str | None:
        """Fingerprint of the graphs that it was trained on; None where the record does not say."""
        return self.data.fingerprint

    @property
    def own_identity(self) -> RunIdentity:
        """Identity that tells the run from every other, those of its configuration as well: checkpoints carry it."""
        return RunIdentity(self.config_hash, {**self.identity.inputs, "run": self.run_id, "seed": str(self.seed)})

    def other_settings(self, settings: Mapping[str, Any]) -> str:
        """Difference of the settings of a configuration from its own, in words; empty where there is none.

        Which runs a configuration stands for is no difference: the one in the folder of a run stands for that alone.
        """
        ours, theirs = ({k: v for k, v in each.items() if k not in _WHICH_RUNS} for each in (settings, self.settings))
        return describe_differences(ours, theirs) if theirs else ""

    @property
    def all_commits(self) -> tuple[str, ...]:
        """``commits``; of older records the last one, which is all they know."""
        return self.commits or (commit_text(self.environment),)

    def end(self, status: Status, reason: str | None = None, **facts: Any) -> RunRecord:
        """A copy with the final status, today's date and what became known (scores, times, ...)."""
        return dataclasses.replace(self, status=status, reason=reason, ended=_now(), **facts)

    @property
    def selected_by(self) -> str | None:
        """Quantity that chose the best epoch on the validation split: ``metric``, or the loss."""
        return "loss" if self.settings.get("metric_best") == "loss" else self.metric

    @property
    def inference_mode(self) -> str | None:
        """Mode in which it applied the model of another run; None: it trained its own."""
        mode = self.settings.get("train.mode")
        return mode if mode in INFERENCE_MODES else None

    def score(self, split: str, name: str | None = None) -> float | None:
        """Value of a metric (default: ``metric``) in a split, None where it was not computed."""
        metric = name or self.metric
        values = (score.value for score in self.scores if (score.split, score.name) == (split, metric))
        return next(values, None)

    def to_json(self) -> str:
        """The record as text; NaN is written as null, so that every JSON reader takes it."""
        return json_text.dumps(self._plain(), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> RunRecord:
        """Inverse of :meth:`to_json`; fields of later versions are ignored.

        Raises:
            ValueError: the text is not a record, or not the one that was written: its checksum is another one.
        """
        try:
            content = json_text.loads_with_checksum(text)
            facts = {key: value for key, value in content.items() if key in cls.__dataclass_fields__}
            facts["scores"] = tuple(map(_score, facts.get("scores", ())))
            facts["commits"] = tuple(facts.get("commits", ()))
            facts["data"] = DataFacts.of(facts.get("data", {}))
            record = cls(**facts)
            check_field_types(record)
            return record if record.schema_version >= 2 else record.with_values(record.settings)
        except (AttributeError, KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"not a run record: {error}") from error

    def _plain(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "data": self.data.plain()}

    def file_text(self) -> str:
        """The content of ``record.json``: the record with its checksum."""
        return json_text.dumps_with_checksum(self._plain())

    def write(self, path: Path) -> None:
        """Writes the record with its checksum, completely or not at all."""
        atomic.write_text(path, self.file_text())

    @classmethod
    def read(cls, path: Path) -> RunRecord | None:
        """The record in a file; None where there is no file or it is no record."""
        try:
            text = path.read_text()
            record = cls.from_json(text)
        except (OSError, ValueError):
            return None
        if record.curves and '"checksum"' not in text:
            return None  # all that have the checksums of curves were written with one of their own: it was taken off
        return record if record.schema_version >= 2 else record.with_settings_of(path.with_name("config.yaml"))

    def with_settings_of(self, dumped: Path) -> RunRecord:
        """A record of version 1, whose hash was made otherwise, with the settings of the configuration beside it.

        Args:
            dumped: ``config.yaml`` of the run's folder; without it the record stays as it is.
        """
        try:
            values = yaml.safe_load(dumped.read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError):
            return self
        return self.with_values(flat(values)) if isinstance(values, dict) else self

    def with_values(self, values: Mapping[str, Any]) -> RunRecord:
        """A copy with the settings, and the hash, of a complete set of values by dotted key; without any, itself."""
        if not values:
            return self
        settings = settings_of(values)
        return dataclasses.replace(self, settings=settings, config_hash=settings_hash(settings))


def commit_text(environment: Mapping[str, Any]) -> str:
    """A commit, with a plus where the code had changes; else the version of the package (``v0.2``), or ``unknown``."""
    commit, version = environment.get("git_commit"), environment.get("packages", {}).get("graphbench-gt")
    if commit:
        return f"{commit}+" if environment.get("git_dirty") else str(commit)
    return f"v{version}" if version else "unknown"


def _score(content: Mapping[str, Any]) -> Score:
    value = content["value"]
    number = float("nan") if value is None else value
    score = Score(content["split"], content["name"], number, content["maximize"], content["count"])
    check_field_types(score)
    return score


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
