"""The records in the repository: complete, packed as the command packs, and of today's configurations."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from graphbench.config import load_config
from graphbench.config.settings import differences
from graphbench.runs.record import RunRecord
from graphbench.runs.records import PackedRecords, read_packed, record_sources, write_packed
from study.shipped_sweeps import SWEEPS, shipped_sweep
from tests.paths import ROOT

STORED = [path for path in sorted((ROOT / "results/measured/records").glob("*.jsonl")) if path.suffixes == [".jsonl"]]
OVERRIDDEN = {
    "gps-mutag-10fold": (
        "configs/tu/gps-mutag.yaml",
        ["dataset.split_mode", "cv-stratifiedkfold-10", "run_multiple_splits", "[0,1,2,3,4,5,6,7,8,9]"],
    ),
    "sfi-peptides-func-500k-3epochs": (
        "configs/lrgb/sfi-peptides-func-500k.yaml",
        ["optim.max_epoch", "3", "optim.num_warmup_epochs", "1"],
    ),
}
"""Configurations that exist as a command only (results/measured/README.md): file and overrides."""


@functools.cache
def configurations() -> dict[str, list[Mapping[str, Any]]]:
    """Settings of today's sweep entries and overridden configurations by name."""
    by_name = {
        name: [load_config(ROOT / file, [*overrides, "name_tag", name.rsplit("-", 1)[1]]).settings]
        for name, (file, overrides) in OVERRIDDEN.items()
    }
    for path in SWEEPS:
        for entry in shipped_sweep(path.stem).entries:
            by_name.setdefault(entry.config.name, []).append(entry.config.settings)
    return by_name


@functools.cache
def files() -> dict[str, Path]:
    return {path.stem: path for path in (ROOT / "configs").rglob("*.yaml") if "_base_" not in path.parts}


@pytest.mark.parametrize("file", STORED, ids=lambda path: path.stem)
def test_stored_records_are_complete(file: Path) -> None:
    """Every line is a finished record under its own name; settings have the hash they stand under."""
    for path, content in read_packed(file).items():
        record = RunRecord.from_json(json.dumps(content))
        assert (path, record.status) == (f"{record.config}/{record.run_id}", "finished")
        settings = json.dumps(content["settings"], sort_keys=True, separators=(",", ":"))
        expected = hashlib.sha256(settings.encode()).hexdigest()[:12]
        assert content["config_hash"] == (expected if content["schema_version"] == 1 else record.config_hash)


@pytest.mark.slow
@pytest.mark.parametrize("file", STORED, ids=lambda path: path.stem)
def test_stored_records_are_of_todays_configurations(file: Path) -> None:
    """What a key is called, or a new key with its released value, makes no stored run one of another configuration."""
    for source in record_sources(file):
        assert isinstance(source, PackedRecords)
        candidates = list(configurations().get(source.config, ()))
        if source.config in files():
            candidates.append(load_config(files()[source.config]).settings)
        for run_id in source.run_ids():
            record = source.read(run_id)
            assert record is not None
            assert record.settings in candidates, differences(candidates[0], record.settings)


@pytest.mark.parametrize("file", STORED, ids=lambda path: path.stem)
def test_stored_files_are_what_the_command_writes(file: Path, tmp_path: Path) -> None:
    copy = tmp_path / file.name
    write_packed(copy, read_packed(file))
    for suffix in (".jsonl", ".configurations.jsonl"):
        assert copy.with_suffix(suffix).read_bytes() == file.with_suffix(suffix).read_bytes()
