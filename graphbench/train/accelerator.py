"""Device, number format and processes from the keys ``accelerator``, ``devices``, ``strategy`` and ``precision``."""

from __future__ import annotations

import os
import warnings
from datetime import timedelta

import torch

from graphbench.errors import ArgumentError, check_at_least, check_one_of
from graphbench.train.fabric import Fabric
from graphbench.train.precision import Precision

PRECISIONS = ("32-true", "tf32", "bf16-mixed", "16-mixed", "bf16-true", "16-true", "64-true")
STRATEGIES = ("auto", "ddp")


def formats_of(precision: str) -> tuple[str, str]:
    """(number format, precision of PyTorch's fp32 products) that one of :data:`PRECISIONS` stands for."""
    return ("32-true", "high") if precision == "tf32" else (precision, "highest")


def make_fabric(
    accelerator: str = "auto",
    devices: int | None = 1,
    strategy: str = "auto",
    precision: str = "32-true",
    timeout: float = 600.0,
) -> Fabric:
    """A Fabric for devices, number format and processes. Launch it before anything is built on it.

    Args:
        accelerator: ``auto``, ``cpu``, ``cuda`` (or ``gpu``), ``cuda:N`` for one particular GPU, ``mps``.
        devices: processes, one device each; None is 1.
        strategy: ``auto`` (one process, or ``ddp`` for several) or ``ddp``.
        precision: one of :data:`PRECISIONS`. ``tf32`` is ``32-true`` whose matrix products a GPU computes from numbers
            of ten bits; other devices have no such products and compute as with ``32-true``.
        timeout: seconds that a process waits for the others, at the start and in one exchange, before it ends as if
            they were lost. A process that is killed closes its connections, which the others notice at once; one that
            hangs, or whose machine is lost, does not.

    Raises:
        ValueError: an unknown name, or a device that is not there.
    """
    device_type, _, index = accelerator.partition(":")
    known = device_type in ("auto", "cpu", "cuda", "gpu", "mps")
    if not known or (index and not (device_type == "cuda" and index.isdigit())):
        raise ArgumentError(
            "accelerator", f"accelerator must be auto, cpu, cuda, cuda:N or mps, received {accelerator!r}"
        )
    check_one_of(STRATEGIES, strategy=strategy)
    check_one_of(PRECISIONS, precision=precision)
    present = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device_type in ("cuda", "gpu") and present <= int(index or 0):
        raise ArgumentError(
            "accelerator", f"accelerator is {accelerator!r}, but PyTorch sees {present} CUDA devices here; use 'cpu'"
        )
    if device_type == "mps" and not torch.backends.mps.is_available():
        raise ArgumentError("accelerator", f"accelerator is {accelerator!r}, but PyTorch sees no MPS here; use 'cpu'")
    if device_type == "auto" and not present:
        device_type = "cpu"  # not mps: half of the sparse operators are missing there
    count = 1 if devices is None else devices
    check_at_least(1, devices=count)
    if index and count > 1:
        raise ArgumentError("accelerator", f"accelerator {accelerator!r} names one device, but devices is {count}")
    if not 0 < timeout < float("inf"):
        raise ArgumentError("timeout", f"timeout must be a positive number of seconds, received {timeout}")
    cores = os.cpu_count() or 1
    if device_type == "cpu" and count > max(8, 4 * cores):
        raise ArgumentError("devices", f"devices is {count}: as many processes on the {cores} cores of this machine")
    precision, of_products = formats_of(precision)
    if present and device_type != "cpu":  # a setting of the process, which may have run something else before
        torch.set_float32_matmul_precision(of_products)
    if count > 1 or strategy == "ddp":
        from graphbench.train.processes import Processes  # Lightning, see graphbench/train/fabric.py

        with warnings.catch_warnings():
            if "SLURM_JOB_ID" not in os.environ:  # on a login node, say, where nothing is meant to go through SLURM
                warnings.filterwarnings("ignore", "The `srun` command is available")
            numbers = [int(index)] if index else count
            return Processes(device_type, numbers, timedelta(seconds=timeout), precision)
    device = torch.device("cuda", int(index or 0)) if device_type not in ("cpu", "mps") else torch.device(device_type)
    return Fabric(device, Precision(precision, device))
