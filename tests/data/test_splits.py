from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.model_selection import StratifiedKFold

from graphbench.data.split_protocols import make_splits
from graphbench.data.splits import SplitRequest, Splits, read_mask_files
from graphbench.errors import UserError

LABELS = torch.arange(100) % 4


def _sizes(splits: Splits) -> tuple[int, ...]:
    return tuple(index.numel() for index in splits.parts().values())


def _lists(splits: Splits) -> list[list[int]]:
    return [index.tolist() for index in splits.parts().values()]


def test_random_covers_everything_and_depends_on_the_seed() -> None:
    made = make_splits("random", SplitRequest(100, seed=3))
    assert _sizes(made) == (80, 10, 10)
    assert sorted(number for part in _lists(made) for number in part) == list(range(100))
    assert _lists(made) == _lists(make_splits("random", SplitRequest(100, seed=3)))
    assert _lists(made) != _lists(make_splits("random", SplitRequest(100, seed=4)))


def test_random_by_counts_leaves_the_rest_out() -> None:
    assert _sizes(make_splits("random", SplitRequest(100, sizes=[10, 20, 30]))) == (10, 20, 30)


def test_random_per_class_is_the_protocol_of_the_sgformer_release() -> None:
    made = make_splits("random-class", SplitRequest(100, labels=LABELS, sizes=[5, 20, 30], seed=123))
    assert _sizes(made) == (20, 20, 30)
    assert torch.bincount(LABELS[made.train]).tolist() == [5, 5, 5, 5]
    # the same draws, written down step by step with torch's global generator
    torch.manual_seed(123)
    train, rest = [], []
    for label in range(4):
        members = torch.arange(100)[label == LABELS]
        members = members[torch.randperm(25)].tolist()
        train += members[:5]
        rest += members[5:]
    left = torch.tensor(rest)[torch.randperm(80)].tolist()
    assert _lists(made) == [train, left[:20], left[20:50]]


def test_random_per_class_leaves_unlabelled_examples_out() -> None:
    labels = torch.where(torch.arange(100) < 40, torch.tensor(-1), LABELS)
    made = make_splits("random-class", SplitRequest(100, labels=labels, sizes=[2, 10, 10]))
    assert min(int(index.min()) for index in made.parts().values()) >= 40


def test_one_permutation_is_the_split_of_linkx_and_sgformer() -> None:
    arguments = {"num_examples": 100, "labels": LABELS, "seed": 123}
    np.random.seed(123)  # noqa: NPY002 (the releases draw from the global generator)
    for index in range(3):  # one permutation per run
        order = np.random.permutation(100).tolist()  # noqa: NPY002
        made = make_splits("random-permutation", SplitRequest(sizes=[0.2, 0.25, 0.55], index=index, **arguments))
        assert _lists(made) == [order[:20], order[20:45], order[45:]]
    smaller = make_splits("random-permutation", SplitRequest(sizes=[0.1, 0.25, 0.65], index=2, **arguments))
    assert set(smaller.train.tolist()) < set(made.train.tolist())


def test_random_split_is_that_of_pytorch() -> None:
    torch.manual_seed(12344)  # as a script does it that splits first of all
    parts = torch.utils.data.random_split(range(103), [82, 10, 11])
    made = make_splits("random-split", SplitRequest(103, sizes=[0.8, 0.1, 0.1], seed=12344))
    assert _lists(made) == [list(part.indices) for part in parts]
    labels = torch.arange(103) % 3 - 1
    made = make_splits("random-split", SplitRequest(103, labels=labels, sizes=[0.8, 0.1, 0.1], seed=12344))
    assert all(bool((labels[index] >= 0).all()) for index in made.parts().values())


def test_folds_are_those_of_graphgps() -> None:
    folds = [
        held.tolist()
        for _, held in StratifiedKFold(5, shuffle=True, random_state=123).split(np.zeros(100), LABELS.numpy())
    ]
    for index in range(5):
        made = make_splits("cv-stratifiedkfold-5", SplitRequest(100, labels=LABELS, index=index, seed=index))
        assert made.test.tolist() == folds[index]
        assert made.val.tolist() == folds[(index + 1) % 5]
        assert _sizes(made) == (60, 20, 20)


@pytest.mark.parametrize("mode", ["cv-kfold-5", "cv-stratifiedkfold-5"])
def test_folds_of_another_seed_are_others(mode: str) -> None:
    def tested(**seed: int) -> list[list[int]]:
        return [
            make_splits(mode, SplitRequest(num_examples=100, labels=LABELS, index=index, **seed)).test.tolist()
            for index in range(5)
        ]

    assert tested() == tested(seed=1) == tested(fold_seed=123) != tested(fold_seed=1) != tested(fold_seed=2)
    assert sorted(example for fold in tested(fold_seed=1) for example in fold) == list(range(100))


def test_plain_folds_together_test_everything_once() -> None:
    tested = [make_splits("cv-kfold-7", SplitRequest(20, index=index)).test for index in range(7)]
    assert sorted(torch.cat(tested).tolist()) == list(range(20))


def test_sliced_and_counted() -> None:
    sliced = make_splits("sliced", SplitRequest(10, sizes=[[0, 4], [5, 7], [8, 10]]))
    assert _lists(sliced) == [[0, 1, 2, 3], [5, 6], [8, 9]]
    assert _lists(make_splits("fixed", SplitRequest(10, sizes=[4, 2, 1]))) == [[0, 1, 2, 3], [4, 5], [6]]


def test_split_file(tmp_path: Path) -> None:
    file = tmp_path / "split.json"
    file.write_text(json.dumps({"train": [3, 1], "val": [0], "test": [2]}))
    assert _lists(make_splits("fixed", SplitRequest(4, split_file=file))) == [[3, 1], [0], [2]]
    file.write_text(f'[{file.read_text()}, {{"train": [0], "val": [1], "test": [2]}}]')
    second = make_splits("fixed", SplitRequest(4, split_file=file, index=1))
    assert (_lists(second), second.count) == ([[0], [1], [2]], 2)
    with pytest.raises(UserError, match=r"split_mode 'fixed': split_index 2 does not exist. Allowed: 0 .. 1"):
        make_splits("fixed", SplitRequest(4, split_file=file, index=2))
    file.write_text('[{"train": [0], "val": [1], "test": [2]}, {"train": [0]}]')
    with pytest.raises(UserError, match=r"split.json, split 1 holds \['train'\]"):
        make_splits("fixed", SplitRequest(4, split_file=file))


def test_published_splits_are_chosen_by_index() -> None:
    published = {"standard": (Splits.of([0], [1], [2]), Splits.of([2], [1], [0]))}
    assert make_splits("standard", SplitRequest(3, published=published, index=1)).train.tolist() == [2]
    assert make_splits("public", SplitRequest(3, published=published)).train.tolist() == [0]


def test_masks_become_numbers() -> None:
    made = Splits.from_masks([True, False, False], torch.tensor([False, True, False]), np.array([0, 0, 1], dtype=bool))
    assert _lists(made) == [[0], [1], [2]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "randon"}, r"c\.yaml:3: unknown dataset.split_mode 'randon'. Did you mean 'random'\? Allowed: "),
        ({"mode": "cv-kfold"}, "unknown dataset.split_mode 'cv-kfold'. Did you mean 'cv-kfold-K'"),
        ({"mode": "random", "allowed": ["standard"]}, "'random' is no protocol of this data set. Allowed: standard"),
        ({"mode": "standard"}, r"no such split came with the data \(published here: none\)"),
        (
            {"mode": "geom-gcn", "allowed": ["geom-gcn"], "published_files": {"geom-gcn": ("a.npz", "b.npz")}},
            r"Put a.npz, b.npz below dataset.dir or a folder of \$GRAPHBENCH_DATA, or choose another",
        ),
        (
            {"mode": "standard", "published": {"standard": (Splits.of([0], [1], [2]),)}, "index": 1},
            r"split_index 1 does not exist. Allowed: 0 \.\. 0",
        ),
        ({"mode": "random", "sizes": [0.8, 0.1]}, r"must be three ratios.*received \[0.8, 0.1\]"),
        ({"mode": "random", "sizes": [0.8, 0.1, 0.2]}, "must be positive and add up to 1"),
        ({"mode": "random", "sizes": [90, 10, 10]}, "asks for 110 examples, the data set has 100"),
        ({"mode": "random", "index": 1}, "there is one split per seed; split_index must be 0, received 1. Repeat over"),
        ({"mode": "fixed", "sizes": [8, 1, 1], "index": 2}, r"split_index 2 does not exist. Allowed: 0 \.\. 0"),
        ({"mode": "random", "num_examples": 2}, "needs 3 examples"),
        ({"mode": "random", "num_examples": 4}, "leaves a part empty"),
        ({"mode": "random-permutation", "sizes": [0.5, 0.25, 0.2]}, "must be positive and add up to 1, received"),
        (
            {"mode": "random-split", "sizes": [0.5, 0.25, 0.2]},
            "'random-split': ratios must be positive and add up to 1",
        ),
        (
            {"mode": "random-split", "index": 1},
            "there is one split per seed; split_index must be 0, received 1. Repeat",
        ),
        ({"mode": "random-permutation", "index": -1}, r"split_index -1 does not exist. Allowed: 0 or more"),
        ({"mode": "random-class"}, "class 0 has 25 examples, not more than|500 .* left"),
        ({"mode": "random-class", "sizes": [25, 1, 1]}, "class 0 has 25 examples, not more than the 25 asked"),
        ({"mode": "random-class", "sizes": [0.5, 1, 1]}, "must be three counts"),
        ({"mode": "random-class", "labels": None}, "needs one class per example .100., the data set has no labels"),
        ({"mode": "cv-stratifiedkfold-5", "labels": torch.ones(100, 2)}, r"targets of shape \(100, 2\)"),
        ({"mode": "cv-stratifiedkfold-30"}, "30 folds cannot be made from 100 examples"),
        ({"mode": "cv-kfold-2"}, "at least 3 folds"),
        ({"mode": "cv-kfold-5", "index": 5}, r"split_index 5 does not exist. Allowed: 0 \.\. 4"),
        ({"mode": "fixed"}, "needs dataset.split_file"),
        ({"mode": "fixed", "sizes": [90, 10, 1]}, "part 'test' names example 100, but the data set has 100"),
        ({"mode": "fixed", "sizes": [0.8, 0.1, 0.1]}, "must be three counts"),
        ({"mode": "fixed", "split_file": "nowhere.json"}, "nowhere.json cannot be read: No such file"),
        ({"mode": "sliced", "sizes": [0.8, 0.1, 0.1]}, r"three \[low, high\] pairs"),
        ({"mode": "random", "sizes": [math.nan, 0.5, 0.5]}, r"must be three ratios.*received \[nan, 0.5, 0.5\]"),
        ({"mode": "random", "sizes": [True, True, True]}, "must be three ratios"),
        ({"mode": "random-class", "sizes": [2, math.inf, 20]}, r"must be \[per class, val, test\]"),
        ({"mode": "sliced", "sizes": [[0, "a"], [90, 120], [120, 150]]}, "pairs of whole numbers"),
        ({"mode": "sliced", "sizes": [[0, 90.7], [91, 120], [120, 150]]}, "pairs of whole numbers"),
        ({"mode": "sliced", "sizes": [[0, 5], [4, 6], [6, 9]]}, "example 4 is in 'train' and in 'val'"),
    ],
)
def test_every_mistake_has_its_message(arguments: dict[str, Any], message: str) -> None:
    given = {"num_examples": 100, "labels": LABELS, "allowed": None} | arguments
    mode, allowed = given.pop("mode"), given.pop("allowed")
    with pytest.raises(UserError, match=message) as caught:
        make_splits(mode, SplitRequest(**given), allowed=allowed, where="c.yaml:3")
    assert str(caught.value).startswith("c.yaml:3: ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is no JSON"),
        ("[1]", "split 0 holds int"),
        ("[]", "holds list"),
        ('{"train": [0], "valid": [1], "test": [2]}', r"holds \['test', 'train', 'valid'\]. Expected"),
        ('{"train": [0.5], "val": [1], "test": [2]}', "'train' is no list of whole numbers"),
        ('{"train": [0], "train": [1], "val": [1], "test": [2]}', "is no JSON .*'train' is there twice"),
        (f'{{"train": [{2**70}], "val": [1], "test": [2]}}', "'train' is no list of whole numbers"),
        ("[" * 100_000, "is no JSON"),
        ('{"train": [0, 0], "val": [1], "test": [2]}', "part 'train' names an example twice"),
        ('{"train": [0], "val": [-1], "test": [2]}', "part 'val' names example -1"),
    ],
)
def test_bad_split_files_are_refused(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "split.json"
    file.write_text(content)
    with pytest.raises(UserError, match=message):
        make_splits("fixed", SplitRequest(3, split_file=file))


@pytest.mark.parametrize("sizes", [[0.5, 0.25, 0.25], [20, 20, 20]])
def test_random_leaves_unlabelled_examples_out(sizes: list[Any]) -> None:
    labels = torch.where(torch.arange(100) < 40, torch.tensor(-1), LABELS)
    made = make_splits("random", SplitRequest(100, labels=labels, sizes=sizes))
    assert sum(_sizes(made)) == 60
    assert min(int(index.min()) for index in made.parts().values()) >= 40
    with pytest.raises(UserError, match="asks for 90 examples, the data set has 60"):
        make_splits("random", SplitRequest(100, labels=labels, sizes=[30, 30, 30]))


@pytest.mark.parametrize("mode", ["cv-kfold-5", "cv-stratifiedkfold-5", "random", "random-split", "random-permutation"])
@pytest.mark.parametrize("kind", [torch.int64, torch.float32])
def test_what_is_drawn_leaves_unlabelled_examples_out(mode: str, kind: torch.dtype) -> None:
    unlabelled = torch.arange(100) % 5 == 1
    labels = LABELS.to(kind).masked_fill(unlabelled, math.nan if kind.is_floating_point else -1)
    made = make_splits(mode, SplitRequest(100, labels=labels))
    assert torch.cat(list(made.parts().values())).sort().values.tolist() == (~unlabelled).nonzero().view(-1).tolist()


def test_random_takes_all_where_targets_are_no_classes() -> None:
    some = torch.rand(100, 2)
    some[::2, 1] = math.nan
    for labels in (None, -torch.rand(100), some, torch.zeros(100, 3).long()):
        assert sum(_sizes(make_splits("random", SplitRequest(100, labels=labels)))) == 100


def test_a_data_set_may_bring_a_recipe_instead_of_splits() -> None:
    def recipe(request: SplitRequest) -> Splits:
        return Splits.of([request.seed], [request.seed + 1], [request.num_examples - 1])

    made = make_splits("standard", SplitRequest(9, seed=4, published={"standard": recipe}))
    assert _lists(made) == [[4], [5], [8]]
    with pytest.raises(UserError, match="drawn at random, one per seed; split_index must be 0, received 2"):
        make_splits("standard", SplitRequest(9, index=2, published={"standard": recipe}))


def test_mask_files(tmp_path: Path) -> None:
    masks = np.eye(3)  # Geom-GCN stores them as 0 and 1, not as bool
    np.savez(tmp_path / "0.npz", train_mask=masks[2], val_mask=masks[0], test_mask=masks[1])
    (made,) = read_mask_files([tmp_path / "0.npz"])
    assert _lists(made) == [[2], [0], [1]]
    np.savez(tmp_path / "1.npz", train_mask=masks[2])
    with pytest.raises(UserError, match=r"1.npz cannot be read \(KeyError: val_mask is not a file in the archive"):
        read_mask_files([tmp_path / "0.npz", tmp_path / "1.npz"])


@pytest.mark.parametrize("mode", ["cv-stratifiedkfold-3", "random-class"])
def test_real_numbers_are_no_classes(mode: str) -> None:
    targets = torch.tensor([0.2, 1.7, 0.4, 1.1] * 10)
    with pytest.raises(UserError, match=r"needs classes, .*this data set are real numbers, e\.g\. 0\.2"):
        make_splits(mode, SplitRequest(40, labels=targets, sizes=[1, 2, 2]))
    whole = targets.round()
    whole[0] = torch.nan if mode == "random-class" else 0  # without a label
    make_splits(mode, SplitRequest(40, labels=whole, sizes=[1, 2, 2]))


def test_shares_of_the_training_examples_lie_inside_each_other() -> None:
    whole = Splits.of(range(40), range(40, 50), range(50, 60))
    shares = [set(whole.with_train_fraction(share, seed=3).train.tolist()) for share in (0.05, 0.25, 1.0)]
    assert [len(share) for share in shares] == [2, 10, 40]
    assert shares[0] < shares[1] < shares[2]
    thinned = whole.with_train_fraction(0.25, seed=3)
    assert (thinned.val.tolist(), thinned.test.tolist(), thinned.seed) == (whole.val.tolist(), whole.test.tolist(), 3)
    assert thinned.train.tolist() != whole.with_train_fraction(0.25, seed=4).train.tolist()


@pytest.mark.parametrize("share", [0.0, 1.5, 0.01])
def test_a_share_without_training_examples_is_refused(share: float) -> None:
    message = f"train_fraction must be above 0, .* the 40 training examples, received {share:g}"
    with pytest.raises(UserError, match=message):
        Splits.of(range(40), range(40, 50), range(50, 60)).with_train_fraction(share, seed=0)
