"""Inputs of every run of a configuration, known before the first one starts: split, identity, pretrained run."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from graphbench.config import Config
from graphbench.data.builder import LoadedDataset
from graphbench.data.split_protocols import SplitMode
from graphbench.data.splits import Splits
from graphbench.data.store_tensors import digest
from graphbench.errors import UserError
from graphbench.factory.data import build_splits, read_data
from graphbench.factory.pretrained import run_configuration
from graphbench.factory.split_data import data_of_split, shared_data
from graphbench.preflight import declared_identity
from graphbench.runs.data_facts import DataFacts, PretrainedFacts
from graphbench.runs.identity import WEIGHTS, RunIdentity, described
from graphbench.runs.planned import Run
from graphbench.runs.record import RunRecord
from graphbench.train.pretrained import find_run, read_best


@dataclass(frozen=True)
class RunInputs:
    """One run and what it is made of.

    Attributes:
        run: run that the inputs are for.
        splits: examples of the run.
        identity: digests of everything.
        data: data set and split, for the record.
        notes: sentences for the log.
    """

    run: Run
    splits: Splits
    identity: RunIdentity
    data: DataFacts
    notes: tuple[str, ...] = ()


def run_inputs(config: Config, loaded: LoadedDataset, run: Run) -> RunInputs:
    """Makes the split of a run and compares it with that of the pretrained run it starts from.

    Args:
        config: configuration with the architecture it adopts.
        loaded: the data, encodings or not.
        run: run that the inputs are for.

    Raises:
        UserError: no such split, or examples to be judged on may have trained the pretrained model.
    """
    made = data_inputs(config, loaded, run)
    return _with_pretrained(config, made) if config.tree.pretrained.dir else made


def data_inputs(config: Config, loaded: LoadedDataset, run: Run) -> RunInputs:
    """Inputs of a run, without the pretrained run of :func:`run_inputs`."""
    splits = build_splits(config, loaded, run.seed, run.split_index)
    dataset = config.tree.dataset
    data = DataFacts(
        name=loaded.card.name,
        fingerprint=loaded.store.fingerprint,
        split_mode=dataset.split_mode,
        split_index=run.split_index,
        split_count=splits.count,
        split_seed=splits.seed,
        sizes={name: part.numel() for name, part in splits.parts().items()},
        fold_seed=dataset.split_seed if SplitMode.parse(dataset.split_mode).folds else None,
    )
    known = declared_identity(config, run)
    inputs = {
        **known.inputs,
        **{f"function {name}": hashlib.sha256(source).hexdigest() for name, source in loaded.code.items()},
        "data": loaded.store.fingerprint,
        data.input_name: digest(splits.parts()),
    }
    return RunInputs(run, splits, dataclasses.replace(known, inputs=inputs), data)


@dataclass(frozen=True)
class FinishedRun:
    """Record, configuration and data of a finished run.

    Attributes:
        record: record of the run.
        config: configuration of the run, with its seed and split.
        raw: the data, without encodings.
        splits: examples of the run.
    """

    record: RunRecord
    config: Config
    raw: LoadedDataset
    splits: Splits

    def encoded(self, loaded: LoadedDataset | None = None) -> LoadedDataset:
        """The data as its model reads them: with encodings, and without the links of validation and test.

        Args:
            loaded: what runs share (:func:`~graphbench.factory.split_data.shared_data`), where somebody has it; None:
                encodings are computed, or read from the cache.
        """
        shared = shared_data(self.config, self.raw) if loaded is None else loaded
        return data_of_split(self.config, shared, self.splits)


def read_finished(path: Path) -> FinishedRun:
    """Reads record, configuration, data and split of a finished run once more.

    Args:
        path: directory of the run.

    Raises:
        UserError: no record, or the data, the split or a plug-in is another one today.
    """
    record = RunRecord.read(path / "record.json")
    if record is None:
        raise UserError(f"{path}: record.json is missing, damaged or edited.")
    config = run_configuration(path)
    raw = read_data(config)
    made = data_inputs(config, raw, Run(0, record.seed, record.data.split_index))
    different = record.identity.differences(dataclasses.replace(made.identity, config_hash=record.config_hash))
    if different:
        raise UserError(f"{path}: was made of another {described(different)}; its model cannot be shown on this.")
    return FinishedRun(record, config, raw, made.splits)


def _with_pretrained(config: Config, made: RunInputs) -> RunInputs:
    path = find_run(config.tree.pretrained.dir, made.run.run_id)
    identity = made.identity.joined(pretrained_identity(config, path))
    judged = [_compare_splits(trained, record, made) for trained, record in _lineage(path)]
    data = dataclasses.replace(made.data, pretrained=PretrainedFacts(str(path), tuple(judged)))
    return RunInputs(made.run, made.splits, identity, data, tuple(f"pretrained: {text}." for text in judged))


def pretrained_identity(config: Config, path: Path) -> RunIdentity:
    """The part of a run's identity that the run it starts from is."""
    return RunIdentity(config.hash, {f"{WEIGHTS}{path}": digest(read_best(path)["model"])})


def _lineage(path: Path) -> Iterator[tuple[Path, RunRecord | None]]:
    """A run, the run that it started from, and so on: all have seen their training examples."""
    seen: set[Path] = set()
    while path not in seen:
        seen.add(path)
        record = RunRecord.read(path / "record.json")
        yield path, record
        earlier = record.data.pretrained if record else None
        path = Path(earlier.run) if earlier else path


def _compare_splits(path: Path, record: RunRecord | None, ours: RunInputs) -> str:
    """Examples that a pretrained model is judged on, in words.

    Raises:
        UserError: on the data it was trained on, split otherwise.
    """
    if record is None:
        return f"{path} has no readable record.json: what it was trained on is not known"
    here, there = ours.data, record.data
    if there.fingerprint != here.fingerprint and there.name != here.name:
        return f"{path} was trained on other data ({there.name}); whether the two share examples is not known"
    digests = [value for name, value in record.inputs.items() if name.startswith("split ")]
    if digests:
        same, known = digests == [ours.identity.inputs[here.input_name]], "the very examples"
    else:  # of an older record: whatever else it says
        seed = None if here.split_seed is None else record.settings.get("dataset.split_seed", record.seed)
        there = dataclasses.replace(there, split_seed=seed)
        same, known = there.split == here.split, "as far as its older record tells"
    if same:
        return f"{path} is judged on the split it was trained with, {known}"
    raise UserError(
        f"pretrained.dir: {path} was trained on another split of these examples ({there.split_text}; this run has "
        f"{here.split_text}), so that some that trained it would be in validation and test. Give this run the same "
        f"one (seed or dataset.split_seed, dataset.split_index, dataset.split_mode, as in {path / 'config.yaml'}), or "
        "let pretrained.dir name the folder above a run per seed or split. Other graphs need another dataset.name."
    )
