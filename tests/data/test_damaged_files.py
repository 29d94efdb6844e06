"""Damaged raw files of every data set: one message that names them, or data that pass every check; never a crash."""

from __future__ import annotations

import contextlib
import random
import shutil
from pathlib import Path

import pytest

from graphbench.config import load_config
from graphbench.data.card import DatasetCard
from graphbench.errors import UserError
from graphbench.factory.data import read_data
from scripts.torture.files import DAMAGES
from tests.dataset_case import TrainingCase, declared
from tests.paths import ROOT

LARGEST = 2**22
"""Bytes of real files that are copied for this."""

CASES: dict[str, TrainingCase] = declared("TRAINING_CASES")
ROUNDS = [0, *(pytest.param(number, marks=pytest.mark.slow) for number in range(1, 8))]


def _write(case: TrainingCase, folder: Path, data_root: Path) -> None:
    if case.write is not None:
        folder.mkdir()
        case.write(folder)
        return
    assert case.real is not None
    real = data_root / case.real
    if not real.is_dir() or sum(path.stat().st_size for path in real.rglob("*")) > LARGEST:
        pytest.skip(f"no small {case.real} in {data_root}")
    shutil.copytree(real, folder / case.real)


@pytest.mark.parametrize("number", ROUNDS)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.write or case.real])
def test_one_message_or_checked_data(
    name: str, number: int, tmp_path: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, whole, data = CASES[name], tmp_path / "whole", tmp_path / "data"
    _write(case, whole, data_root)
    monkeypatch.setenv("GRAPHBENCH_DATA", "")
    check = DatasetCard.check  # columns and classes, but not how much there is
    monkeypatch.setattr(DatasetCard, "check", lambda card, *rest: check(card.replace(statistics={}), *rest))
    for module, attribute, value in case.replaced:
        monkeypatch.setattr(module, attribute, value)
    changed = {"dataset.dir": data, "out_dir": tmp_path / "results"} | dict(case.overrides)
    overrides = [str(word).replace("{data}", str(data)) for pair in changed.items() for word in pair]
    config = load_config(ROOT / "configs" / case.config, overrides)
    files = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())
    dice = random.Random(f"{name} {number}")
    if not number:
        files = dice.sample(files, min(3, len(files)))
    for file in files:
        shutil.rmtree(data, ignore_errors=True)
        shutil.copytree(whole, data)
        monkeypatch.setenv("GRAPHBENCH_CACHE", str(data / "cache"))
        damage = dice.choice(DAMAGES)
        damage(data / file, dice)
        with contextlib.suppress(UserError, OSError, MemoryError):  # the system's message
            read_data(config)
