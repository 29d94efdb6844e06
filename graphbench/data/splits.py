"""Splits of the examples into training, validation (chooses the epoch) and test (is reported).

Examples are graphs, or nodes (or pairs of nodes) when the data set is transductive. :mod:`.split_protocols` makes
splits; data sets bring published ones, see :class:`~graphbench.data.builder.LoadedDataset`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphbench.data.files.raw_files import read_npz
from graphbench.errors import UserError
from graphbench.vocabulary import SPLITS

PARTS = SPLITS

FOLD_SEED = 123
"""GraphGPS's seed of folds, which are the same in every run, so that results are comparable across papers."""


@dataclass(frozen=True, eq=False)
class Splits:
    """Disjoint example numbers, int64.

    Attributes:
        train: examples the loss is computed on.
        val: examples that choose the epoch.
        test: examples that are reported.
        count: splits or folds that it was chosen from.
        seed: seed that it was drawn with; None where nothing was drawn.
        masked: length of the masks it was made from; None without masks.
    """

    train: Tensor
    val: Tensor
    test: Tensor
    count: int = 1
    seed: int | None = None
    masked: int | None = None

    @classmethod
    def of(cls, train: Any, val: Any, test: Any) -> Splits:
        """Splits from three lists or arrays of example numbers."""
        parts = [torch.as_tensor(np.asarray(part), dtype=torch.int64).reshape(-1) for part in (train, val, test)]
        return cls(train=parts[0], val=parts[1], test=parts[2])

    @classmethod
    def from_masks(cls, train: Any, val: Any, test: Any, *, what: str = "masks") -> Splits:
        """Splits from boolean masks over all examples.

        Raises:
            UserError: the masks are not equally long.
        """
        masks = [np.asarray(mask).reshape(-1) for mask in (train, val, test)]
        if len({mask.size for mask in masks}) > 1:
            raise UserError(
                f"{what}: the three masks of a split must be equally long, received {[mask.size for mask in masks]}."
            )
        return replace(cls.of(*map(np.flatnonzero, masks)), masked=masks[0].size)

    @classmethod
    def consecutive(cls, counts: Sequence[int]) -> Splits:
        """Training, validation and test examples one after the other, with the given counts."""
        bounds = np.cumsum([0, *counts]).astype(int)
        return cls.of(*(np.arange(low, high) for low, high in pairwise(bounds)))

    def parts(self) -> dict[str, Tensor]:
        """``{"train": ..., "val": ..., "test": ...}``."""
        return {name: getattr(self, name) for name in PARTS}

    def with_train_fraction(self, fraction: float, seed: int) -> Splits:
        """A copy with a random share of the training examples; for one seed, smaller shares lie inside larger ones.

        Args:
            fraction: share above 0, at most 1.
            seed: seed of the draw.

        Raises:
            UserError: the share is none, or leaves no example.
        """
        if fraction == 1.0:
            return self
        if not 0.0 < fraction < 1.0 or fraction * self.train.numel() < 1:
            raise UserError(
                f"dataset.train_fraction must be above 0, at most 1, and leave one of the {self.train.numel()} "
                f"training examples, received {fraction:g}."
            )
        order = np.random.default_rng(seed).permutation(self.train.numel())
        kept = torch.as_tensor(np.sort(order[: int(fraction * self.train.numel() + 1e-6)]))
        return replace(self, train=self.train[kept], seed=seed)

    def check(self, num_examples: int, what: str = "split") -> Splits:
        """Returns itself if the parts are disjoint and every number exists.

        Raises:
            UserError: naming the part and an offending number, or masks of another graph.
        """
        if self.masked not in (None, num_examples):
            raise UserError(
                f"{what}: its masks are of {self.masked} examples, the data set has {num_examples}: they belong to "
                "another graph."
            )
        seen = torch.zeros(max(num_examples, 1), dtype=torch.int8)
        for code, (name, index) in enumerate(self.parts().items(), start=1):
            outside = index[(index < 0) | (index >= num_examples)]
            if outside.numel():
                raise UserError(
                    f"{what}: part '{name}' names example {int(outside[0])}, but the data set has {num_examples} "
                    f"(allowed: 0 .. {num_examples - 1})."
                )
            if index.unique().numel() < index.numel():
                raise UserError(f"{what}: part '{name}' names an example twice.")
            taken = index[seen[index] > 0]
            if taken.numel():
                other = PARTS[int(seen[taken[0]]) - 1]
                raise UserError(
                    f"{what}: example {int(taken[0])} is in '{other}' and in '{name}'; parts must be disjoint."
                )
            seen[index] = code
        return self


@dataclass(frozen=True)
class SplitRequest:
    """Arguments of a protocol (one object, so that all protocols have one signature).

    Attributes:
        num_examples: graphs, or nodes when transductive.
        labels: (num_examples,) classes, for the stratified and per-class protocols; -1 or NaN: unlabelled.
        index: ``dataset.split_index``: which published split, or which fold.
        seed: seed of the random protocols; the folds of cross-validation do not depend on it.
        fold_seed: seed of those.
        sizes: ``dataset.split``: ratios (random, random-permutation, random-split) or counts (random), ``[per class,
            val, test]`` (random-class), counts (fixed without a file) or ``[[low, high], ...]`` (sliced). None takes
            the protocol's default.
        split_file: ``dataset.split_file`` (fixed), see :func:`read_split_file`.
        published: splits that came with the data, by mode.
        published_files: files that further ones are read from, by mode: what a message names where they are missing.
        folds: folds of cross-validation, which ``make_splits`` takes from the mode.
    """

    num_examples: int
    labels: Tensor | None = None
    index: int = 0
    seed: int = 0
    fold_seed: int = FOLD_SEED
    sizes: Sequence[Any] | None = None
    split_file: str | Path | None = None
    published: Mapping[str, Published] = field(default_factory=dict)
    published_files: Mapping[str, Sequence[str]] = field(default_factory=dict)
    folds: int = 0


@dataclass(frozen=True)
class SplitBySizes:
    """A split that ``dataset.split`` alone decides: nothing is drawn, no seed changes it.

    Attributes:
        cut: makes it.
    """

    cut: Callable[[SplitRequest], Splits]


Published = tuple[Splits, ...] | SplitBySizes | Callable[[SplitRequest], Splits]
"""Published split of a data set under one mode: splits to choose from, or a recipe; a function draws with the seed."""


def read_split_file(path: str | Path) -> list[Splits]:
    """Reads ``{"train": [...], "val": [...], "test": [...]}``, or a list of such splits.

    Raises:
        UserError: no such file, no JSON, or not these three lists of numbers.
    """
    shape = 'JSON {"train": [...], "val": [...], "test": [...]} with example numbers counted from 0, or a list of such'
    try:
        content = json.loads(Path(path).expanduser().read_text(encoding="utf-8"), object_pairs_hook=_once)
    except OSError as error:
        raise UserError(f"split file {path} cannot be read: {error.strerror or error}. Expected: {shape}.") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"split file {path} is no JSON ({error}). Expected: {shape}.") from None
    several = isinstance(content, list) and content
    splits = content if several else [content]
    return [
        _read_split(split, f"split file {path}" + (f", split {number}" if several else ""), shape)
        for number, split in enumerate(splits)
    ]


def _read_split(content: Any, what: str, shape: str) -> Splits:
    if not isinstance(content, dict) or sorted(content) != sorted(PARTS):
        received = sorted(content) if isinstance(content, dict) else type(content).__name__
        raise UserError(f"{what} holds {received}. Expected: {shape}.")
    for name in PARTS:
        if not isinstance(content[name], list) or not all(
            type(number) is int and abs(number) < 2**63 for number in content[name]
        ):
            raise UserError(f"{what}: '{name}' is no list of whole numbers. Expected: {shape}.")
    return Splits.of(content["train"], content["val"], content["test"])


def without_target(y: Tensor) -> Tensor:
    """(R,) which rows of targets have none: NaN instead of real numbers, a negative class."""
    missing = y.isnan() if y.is_floating_point() else y < 0
    return missing.reshape(len(y), -1).all(1)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, whose names must differ: of two parts of one name the parser would take the last."""
    names = [name for name, _ in pairs]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"'{twice[0]}' is there twice")
    return dict(pairs)


def mask_splits(*masks: Any, what: str) -> tuple[Splits, ...]:
    """A split per column of the three masks; one with a single column belongs to all (WikiCS has one test mask).

    Args:
        masks: (N,) or (N, splits) of training, validation and test.
        what: origin of the splits, for messages.

    Raises:
        UserError: their columns or lengths do not fit each other.
    """
    columns = [torch.as_tensor(mask).reshape(len(mask), -1).unbind(1) for mask in masks]
    counts = [len(of_part) for of_part in columns]
    if set(counts) - {1, max(counts)}:
        raise UserError(
            f"{what}: the masks of {', '.join(PARTS)} have {', '.join(map(str, counts))} columns; they need as many, a "
            "split each, or one."
        )
    columns = [of_part * (max(counts) // len(of_part)) for of_part in columns]
    return tuple(Splits.from_masks(*of_parts, what=what) for of_parts in zip(*columns, strict=True))


def read_mask_files(paths: Sequence[Path]) -> tuple[Splits, ...]:
    """One split per file: ``.npz`` with the arrays ``train_mask``, ``val_mask`` and ``test_mask`` (Geom-GCN).

    Raises:
        UserError: a file is damaged or holds something else.
    """
    names = [f"{part}_mask" for part in PARTS]
    return tuple(Splits.from_masks(*read_npz(path, *names), what=str(path)) for path in paths)
