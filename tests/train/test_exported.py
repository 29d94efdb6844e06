"""Parameters in one file: what was written, or an error."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save

from graphbench.runs.identity import RunIdentity
from graphbench.runs.record import RunRecord
from graphbench.train.exported import exported, read_exported

MODEL = {"body.weight": torch.arange(6.0).view(2, 3), "count": torch.tensor(7), "empty": torch.empty(0, 2)}
RECORD = RunRecord(config="c", config_hash="h", seed=4, run_id="4", inputs={"data": "d"})


def test_what_was_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(exported(MODEL, RECORD))
    content = read_exported(file)
    assert RunIdentity(**content["run"]) == RECORD.own_identity
    assert content["model"].keys() == MODEL.keys()
    assert all(torch.equal(content["model"][name], value) for name, value in MODEL.items())
    file.write_bytes(save(MODEL))  # of an earlier version
    assert read_exported(file)["run"] is None


def test_every_bit_that_changes_is_noticed(tmp_path: Path) -> None:
    """Or changes what the file says of its run, which is compared with the record."""
    file, content = tmp_path / "model.safetensors", exported(MODEL, RECORD)
    for place in range(len(content)):
        flipped = bytearray(content)
        flipped[place] ^= 1
        file.write_bytes(flipped)
        try:
            read = read_exported(file)
        except (ValueError, KeyError, SafetensorError):
            continue
        same = all(torch.equal(read["model"][name], value) for name, value in MODEL.items())
        assert same, f"byte {place} of {len(content)}"


def test_half_a_file_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(exported(MODEL, RECORD)[:-1])
    with pytest.raises(SafetensorError):
        read_exported(file)
