"""Keys of the configuration to a Fabric, and the messages for those that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from graphbench.train.accelerator import make_fabric
from graphbench.train.processes import Processes


def test_defaults_are_one_process() -> None:
    fabric = make_fabric()
    assert fabric.world_size == 1
    assert fabric.device.type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert fabric.precision.name == "32-true"


def test_two_devices_are_data_parallel() -> None:
    assert isinstance(make_fabric("cpu", devices=2), Processes)


def test_one_process_is_no_task_of_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "srun").touch(mode=0o755)  # Lightning warns where it is installed and not used: an error in tests
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert make_fabric().world_size == 1
    assert make_fabric("cpu", devices=2).world_size == 2
    job = {"JOB_ID": 1, "JOB_NAME": "four", "NTASKS": 4, "NTASKS_PER_NODE": 4, "PROCID": 2, "LOCALID": 2, "NODEID": 0}
    for name, value in job.items():
        monkeypatch.setenv(f"SLURM_{name}", str(value))
    fabric = make_fabric()
    assert (fabric.world_size, fabric.global_rank) == (1, 0)


@pytest.mark.parametrize(("precision", "products"), [("tf32", "high"), ("32-true", "highest")])
def test_tf32_is_a_setting_of_products_on_a_gpu(precision: str, products: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(torch, "set_float32_matmul_precision", asked.append)
    assert make_fabric("cpu", precision=precision).precision.name == "32-true"
    assert asked == []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert make_fabric("cuda", precision=precision).precision.name == "32-true"
    assert asked == [products]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"accelerator": "tpu"}, "accelerator must be auto, cpu, cuda, cuda:N or mps, received 'tpu'"),
        ({"accelerator": "cpu:1"}, "accelerator must be"),
        ({"accelerator": "cuda:99"}, "PyTorch sees . CUDA devices here; use 'cpu'"),
        ({"accelerator": "cpu", "strategy": "fsdp"}, "strategy must be one of .*received 'fsdp'"),
        ({"accelerator": "cpu", "precision": "8"}, "precision must be one of .*received '8'"),
        ({"accelerator": "cpu", "timeout": 0.0}, "timeout must be a positive number of seconds, received 0.0"),
        ({"accelerator": "cpu", "devices": 0}, "devices must be at least 1, received 0"),
    ],
)
def test_what_cannot_be_is_refused(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_fabric(**arguments)
