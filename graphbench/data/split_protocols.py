"""Protocols that make a split: one function each, and :func:`make_splits`, which calls the one that is named.

Names are GraphGPS's where it has them: ``standard`` (published with the data), ``random``, ``cv-kfold-K``,
``cv-stratifiedkfold-K``, ``fixed``, ``sliced``; ours are ``random-class``, ``random-permutation``, ``random-split`` and
the names under which a data set publishes further splits (``geom-gcn``, ``folds``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from graphbench.data.splits import Published, SplitBySizes, SplitRequest, Splits, read_split_file, without_target
from graphbench.errors import UserError, unknown

_DRAWN = ("random", "random-class", "random-permutation", "random-split")
_SINGLE = ("random", "random-class", "random-split", "sliced")
"""Protocols in which ``split_index`` has nothing to choose from: several indices would repeat one run."""
_SIZES: Mapping[str, tuple[float, ...]] = {"random-class": (20, 500, 1000), "random-permutation": (0.5, 0.25, 0.25)}


@dataclass(frozen=True)
class SplitMode:
    """Parsed value of ``dataset.split_mode``.

    Attributes:
        name: its text, ``standard`` for ``public``.
        protocol: name of the protocol, ``cv-kfold-K`` for any K.
        folds: K; None: no cross-validation.
    """

    name: str
    protocol: str
    folds: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Any text is one; :func:`check_mode` says whether there is such a protocol."""
        if cv := re.fullmatch(r"(cv-kfold|cv-stratifiedkfold)-([0-9]+)", text):
            return cls(text, f"{cv[1]}-K", int(cv[2]))
        name = "standard" if text == "public" else text
        return cls(name, name)


def default_sizes(mode: str) -> tuple[float, ...]:
    """``dataset.split`` of a protocol where the user gives none; (0.8, 0.1, 0.1) where it has no use for sizes."""
    return _SIZES.get(mode, (0.8, 0.1, 0.1))


def check_mode(
    mode: str, allowed: Sequence[str] | None, published: Iterable[str] | None = None, where: str | None = None
) -> SplitMode:
    """The protocol that ``dataset.split_mode`` names; needs no data.

    Args:
        mode: value of ``dataset.split_mode``, as written.
        allowed: the card's ``split_modes``; None allows everything.
        published: modes that came with the data.
        where: ``file:line`` of the mode, for messages.

    Raises:
        UserError: no such protocol, or none of this data set.
    """
    parsed = SplitMode.parse(mode)
    known = {*PROTOCOLS, *(published or ()), *(allowed or ())}
    if parsed.protocol not in known:
        raise unknown("dataset.split_mode", parsed.name, known, where)
    if allowed is not None and parsed.protocol not in allowed:
        raise UserError(
            f"{where + ': ' if where else ''}split_mode '{parsed.name}' is no protocol of this data set. Allowed: "
            f"{', '.join(sorted(allowed))}."
        )
    return parsed


def check_index(mode: str, index: int, counts: Mapping[str, int], where: str | None = None) -> None:
    """Refuses a ``split_index`` that does not exist, or too few folds; needs no data.

    Args:
        mode: ``dataset.split_mode``.
        index: number of the published split, or of the fold.
        counts: published splits by mode, as far as it is known how many there are.
        where: ``file:line`` of the index, for messages.

    Raises:
        UserError: with what is allowed.
    """
    parsed = SplitMode.parse(mode)
    mode, folds = parsed.name, parsed.folds
    count = counts.get(mode) if folds is None else folds
    prefix = f"{where}: " if where else ""
    if folds is not None and folds < 3:
        raise UserError(f"{prefix}cross-validation needs at least 3 folds (train, val and test), received {count}.")
    if index and mode in _SINGLE:
        raise UserError(
            f"{prefix}split_mode '{mode}': there is one split{' per seed' if mode in _DRAWN else ''}; split_index must "
            f"be 0, received {index}. Repeat over seeds (--repeat) instead of splits (run_multiple_splits)."
        )
    if index < 0 or (count is not None and index >= count):
        allowed = "0 or more" if count is None else f"0 .. {count - 1}"
        raise UserError(f"{prefix}split_mode '{mode}': split_index {index} does not exist. Allowed: {allowed}.")


def published_counts(published: Mapping[str, Published]) -> dict[str, int]:
    """Number of splits of every mode that came with the data; of those that are drawn nothing."""
    return {
        mode: 1 if isinstance(splits, SplitBySizes) else len(splits)
        for mode, splits in published.items()
        if splits and not callable(splits)
    }


def make_splits(
    mode: str, request: SplitRequest, *, allowed: Sequence[str] | None = None, where: str | None = None
) -> Splits:
    """The split of a run.

    Args:
        mode: ``dataset.split_mode``.
        request: arguments of the protocol.
        allowed: the card's ``split_modes``; None allows everything.
        where: ``file:line`` of the mode, for messages.

    Raises:
        UserError: unknown or unsuitable mode, bad sizes, overlapping or out-of-range parts.
    """
    prefix = f"{where}: " if where else ""
    parsed = check_mode(mode, allowed, request.published, where)
    mode, protocol, folds = parsed.name, parsed.protocol, parsed.folds
    try:
        counts = published_counts(request.published)
        check_index(mode, request.index, counts)
        if protocol in PROTOCOLS:
            made = PROTOCOLS[protocol](replace(request, folds=folds or 0))
        else:
            made = _published(protocol, request)
        for part, members in made.check(request.num_examples, f"split_mode '{mode}'").parts().items():
            if not members.numel():
                raise UserError(f"split_mode '{mode}': part '{part}' is empty; each of the three needs examples.")
        if callable(request.published.get(protocol)) or protocol in _DRAWN:
            return replace(made, seed=request.seed)
        return replace(made, count=max(counts.get(protocol, 0), made.count) if folds is None else folds)
    except UserError as error:
        raise UserError(f"{prefix}{error}") from None


def _published(mode: str, request: SplitRequest) -> Splits:
    available = request.published.get(mode, ())
    if not available:
        others = ", ".join(sorted(request.published)) or "none"
        files = ", ".join(request.published_files.get(mode, ()))
        remedy = f"Put {files} below dataset.dir or a folder of $GRAPHBENCH_DATA, or choose" if files else "Choose"
        raise UserError(
            f"split_mode '{mode}': no such split came with the data (published here: {others}). "
            f"{remedy} another split_mode."
        )
    if isinstance(available, SplitBySizes):
        return available.cut(request)
    if callable(available):
        if request.index:
            raise UserError(
                f"split_mode '{mode}': the split of this data set is drawn at random, one per seed; split_index must "
                f"be 0, received {request.index}. Vary the seed (or dataset.split_seed) instead."
            )
        return available(request)
    return available[request.index]


def _random(request: SplitRequest) -> Splits:
    """Shuffled and cut by ratios, in the two steps of GraphGPS: the same seed gives the same split as there.

    Ratios that add up to less than 1 leave examples out, of those that would train: for one seed, val and test stay the
    same whatever the fraction of training examples, and a smaller training part lies inside a larger one (SGFormer's
    Tables 5 to 7). Whole numbers are counts instead; examples beyond their sum are left out. So are examples without a
    label (-1 or NaN).
    """
    train, val, test = ratios = three_sizes(
        request, default_sizes("random"), "three ratios, e.g. [0.8, 0.1, 0.1], or three counts"
    )
    examples = _labelled(request)
    if all(isinstance(value, int) and value > 0 for value in ratios):
        if sum(ratios) > len(examples):
            raise UserError(
                f"split_mode 'random': {list(ratios)} asks for {sum(ratios)} examples, the data set has "
                f"{len(examples)}."
            )
        order = np.random.default_rng(request.seed).permutation(examples)
        return Splits.of(order[:train], order[train : train + val], order[train + val : train + val + test])
    if min(ratios) <= 0 or sum(ratios) > 1 + 1e-6:
        raise UserError(
            f"split_mode 'random': ratios must be positive and add up to 1 at most, received {list(ratios)}."
        )
    if len(examples) < 3:
        raise UserError(f"split_mode 'random' needs 3 examples, the data set has {len(examples)}.")
    all_used = abs(sum(ratios) - 1) <= 1e-6
    largest = train if all_used else 1 - val - test
    num_train = len(examples) if all_used else int(train * len(examples) + 1e-6)
    try:
        first, rest = _shuffle(examples, largest, request.seed)
        second, third = _shuffle(rest, val / (1 - largest), request.seed)
    except ValueError:  # scikit-learn: a part would be empty
        raise UserError(
            f"split_mode 'random': {list(ratios)} of {len(examples)} examples leaves a part empty."
        ) from None
    if not num_train:
        raise UserError(f"split_mode 'random': {train} of {len(examples)} examples is no training example at all.")
    return Splits.of(first[:num_train], second, third)


def _shuffle(examples: np.ndarray, train_size: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.model_selection import ShuffleSplit  # here, because importing it costs more than a second

    splitter = ShuffleSplit(n_splits=1, train_size=train_size, random_state=seed)
    first, rest = next(splitter.split(examples))
    return examples[first], examples[rest]


def _random_class(request: SplitRequest) -> Splits:
    """A number of training examples from every class, then val and test from the shuffled rest.

    The protocol of the SGFormer release (github.com/qitianwu/SGFormer): 20 per class, 500, 1000. Classes in ascending
    order, one permutation each, then one of everything left; with the seed of that release (123) and torch's
    generator these are its very nodes.
    """
    per_class, val, test = three_sizes(
        request, default_sizes("random-class"), "[per class, val, test], e.g. [20, 500, 1000]"
    )
    if any(value != int(value) or value < 1 for value in (per_class, val, test)):
        raise UserError(
            f"split_mode 'random-class': dataset.split must be three counts [per class, val, test], received "
            f"{[per_class, val, test]}."
        )
    labels = _classes(request, "random-class")
    generator = torch.Generator().manual_seed(request.seed)
    train, rest = [], []
    for label in labels[labels >= 0].unique():
        members = (labels == label).nonzero().view(-1)
        if members.numel() <= per_class:
            raise UserError(
                f"split_mode 'random-class': class {int(label)} has {members.numel()} examples, not more than the "
                f"{int(per_class)} asked for training."
            )
        members = members[torch.randperm(members.numel(), generator=generator)]
        train.append(members[: int(per_class)])
        rest.append(members[int(per_class) :])
    left = torch.cat(rest) if rest else torch.empty(0, dtype=torch.int64)
    left = left[torch.randperm(left.numel(), generator=generator)]
    if left.numel() < val + test:
        raise UserError(
            f"split_mode 'random-class': {int(val)} + {int(test)} examples asked for val and test, {left.numel()} left."
        )
    return Splits.of(torch.cat(train), left[: int(val)], left[int(val) : int(val + test)])


def _random_permutation(request: SplitRequest) -> Splits:
    """One permutation of the labelled examples, cut into train, val and all the rest.

    ``rand_train_test_idx`` of LINKX's release (github.com/CUAI/Non-Homophily-Large-Scale), which those of NodeFormer,
    DIFFormer and SGFormer share: numpy's legacy generator with the release's seed makes these its very nodes. For one
    seed, a smaller training part lies inside a larger one. ``split_index`` counts the permutations that the release
    drew from the same generator before, one per run.
    """
    examples = _labelled(request)
    generator = np.random.RandomState(request.seed)
    for _ in range(request.index + 1):
        order = examples[generator.permutation(len(examples))]
    return _cut(request, "random-permutation", order)


def _random_split(request: SplitRequest) -> Splits:
    """:func:`torch.utils.data.random_split` of the labelled examples, right after :func:`torch.manual_seed`.

    The split of plain PyTorch scripts, Gradformer's release among them (data_utils/load_data.py at 7337390): with the
    seed of a script that draws nothing before, these are its very examples. Sizes of train and val are rounded down,
    all the rest is test.
    """
    examples = _labelled(request)
    order = torch.randperm(len(examples), generator=torch.Generator().manual_seed(request.seed))
    return _cut(request, "random-split", examples[order.numpy()])


def _cut(request: SplitRequest, mode: str, order: np.ndarray) -> Splits:
    """The first examples of an order train, the next validate, all the rest are tested."""
    ratios = three_sizes(request, default_sizes(mode), "three ratios, e.g. [0.5, 0.25, 0.25]")
    if min(ratios) <= 0 or abs(sum(ratios) - 1) > 1e-6:
        raise UserError(f"split_mode '{mode}': ratios must be positive and add up to 1, received {list(ratios)}.")
    train, val = (int(len(order) * ratio) for ratio in ratios[:2])
    return Splits.of(order[:train], order[train : train + val], order[train + val :])


def _fixed(request: SplitRequest) -> Splits:
    """Read from a file; without one, the first, next and last counts of ``dataset.split`` in the data's own order."""
    if request.split_file is not None:
        splits = read_split_file(request.split_file)
        check_index("fixed", request.index, {"fixed": len(splits)})
        return replace(splits[request.index], count=len(splits))
    check_index("fixed", request.index, {"fixed": 1})
    train, val, test = three_sizes(request, default_sizes("fixed"), "three counts, e.g. [800, 100, 100]")
    if any(value != int(value) or value < 0 for value in (train, val, test)):
        raise UserError(
            "split_mode 'fixed' needs dataset.split_file (JSON); without one dataset.split must be three counts, "
            f"received {[train, val, test]}."
        )
    return Splits.consecutive((train, val, test))


def _sliced(request: SplitRequest) -> Splits:
    """Three half-open ranges of the data's own order."""
    ranges = list(request.sizes or ())
    pairs = [bounds for bounds in ranges if isinstance(bounds, Sequence) and len(bounds) == 2]
    if len(ranges) != 3 or len(pairs) != 3 or any(type(bound) is not int for bounds in pairs for bound in bounds):
        raise UserError(
            f"split_mode 'sliced': dataset.split must be three [low, high] pairs of whole numbers, received {ranges}."
        )
    return Splits.of(*(np.arange(low, high) for low, high in ranges))


def _kfold(request: SplitRequest) -> Splits:
    """Test is fold i of the labelled examples, val is fold i + 1 (mod K), the rest trains."""
    from sklearn.model_selection import KFold

    folds = KFold(request.folds, shuffle=True, random_state=request.fold_seed)
    return _from_folds(request, folds, np.zeros(request.num_examples))


def _stratified_kfold(request: SplitRequest) -> Splits:
    """Folds of kfold, with the class frequencies of the whole data set in every fold."""
    from sklearn.model_selection import StratifiedKFold

    folds = StratifiedKFold(request.folds, shuffle=True, random_state=request.fold_seed)
    return _from_folds(request, folds, _classes(request, "cv-stratifiedkfold").numpy())


def _from_folds(request: SplitRequest, splitter: Any, labels: np.ndarray) -> Splits:
    count, examples = request.folds, _labelled(request)
    labels = labels[examples]
    try:
        folds = [examples[held] for _, held in splitter.split(np.zeros(len(labels)), labels)]
    except ValueError as error:  # scikit-learn: fewer examples (of a class) than folds
        raise UserError(f"{count} folds cannot be made from {len(labels)} examples: {error}") from None
    test, val = request.index, (request.index + 1) % count
    train = np.concatenate([fold for number, fold in enumerate(folds) if number not in (test, val)])
    return Splits.of(train, folds[val], folds[test])


PROTOCOLS: dict[str, Callable[[SplitRequest], Splits]] = {
    "standard": lambda request: _published("standard", request),
    "random": _random,
    "random-class": _random_class,
    "random-permutation": _random_permutation,
    "random-split": _random_split,
    "fixed": _fixed,
    "sliced": _sliced,
    "cv-kfold-K": _kfold,
    "cv-stratifiedkfold-K": _stratified_kfold,
}
"""Protocols that need no particular data set."""


def three_sizes(request: SplitRequest, default: tuple[float, ...], shape: str) -> tuple[Any, Any, Any]:
    """``dataset.split`` of a protocol that has three numbers.

    Args:
        request: arguments of the protocol.
        default: sizes where there are none.
        shape: what they must be, for the message.

    Raises:
        UserError: they are not three finite numbers.
    """
    values = list(default if request.sizes is None else request.sizes)
    if len(values) != 3 or not all(_is_size(value) for value in values):
        raise UserError(f"dataset.split must be {shape}, received {values}.")
    return values[0], values[1], values[2]


def _is_size(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _labelled(request: SplitRequest) -> np.ndarray:
    """Numbers of the examples that have a target; all, where targets are of something else."""
    labels = request.labels
    if labels is None or not len(labels) or len(labels) != request.num_examples:
        return np.arange(request.num_examples)
    return np.flatnonzero(~without_target(labels).numpy())


def _classes(request: SplitRequest, mode: str) -> Tensor:
    labels = request.labels
    if labels is not None and labels.dim() == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels is None or labels.dim() != 1 or labels.shape[0] != request.num_examples:
        shape = None if labels is None else tuple(labels.shape)
        raise UserError(
            f"split_mode '{mode}' needs one class per example ({request.num_examples}), the data set has "
            f"{'no labels' if shape is None else f'targets of shape {shape}'}. Use 'random' or 'cv-kfold-K'."
        )
    labels = torch.nan_to_num(labels.to(torch.float64), nan=-1)
    if bool((labels != labels.round()).any()):
        raise UserError(
            f"split_mode '{mode}' needs classes, and the targets of this data set are real numbers, e.g. "
            f"{float(labels[labels != labels.round()][0]):g}. Use 'random' or 'cv-kfold-K'."
        )
    return labels.to(torch.int64)
