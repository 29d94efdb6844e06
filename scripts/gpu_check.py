"""What is run first on a GPU that is lent: is captured training right, what does it launch, how long is an epoch.

    python -m scripts.gpu_check [tests] [launches] [epochs]

``tests``: 50 steps captured and not with equal losses, two captured runs equal bit for bit, other dropout masks in
every step, a kernel on another stream noticed, seeds on streams of their own; with CUDA graphs where there is a GPU,
else with the tape of tests/train/step_tape.py. ``launches``: kernels of a training step by the profiler, beside the
budget that is counted without a GPU. ``epochs``: ``bench.py epochs``. All three without a word; the code is that of the
first that fails. Every part takes minutes: where a command has a limit, give one at a time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from graphbench.benchmarks import cli as bench
from graphbench.benchmarks.epochs import per_step

ROOT = Path(__file__).resolve().parent.parent
TESTS = (
    "tests/train/test_captured_step.py",
    "tests/train/test_captured_training.py",
    "tests/train/test_captured_evaluation.py",
    "tests/train/test_turns.py",
)
BUDGETS = ROOT / "tests/launch_budgets.json"
OF_ONE_STEP = ("gather", "forward", "loss", "backward", "clip", "optimizer")


def main(arguments: list[str] | None = None) -> int:
    """Runs the parts asked for, in their order; the exit code of the first that fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all")
    asked = parser.parse_args(arguments).parts or list(PARTS)
    unknown = [part for part in asked if part not in PARTS]
    if unknown:
        parser.error(f"parts are {', '.join(PARTS)}; received {', '.join(unknown)}")
    codes = [PARTS[part]() for part in PARTS if part in asked]
    return next((code for code in codes if code), 0)


def tests() -> int:
    """The tests of capturing, long ones included."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "slow or not slow", *TESTS]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def launches() -> int:
    """A line per counted configuration; 1 where a step launches more than it is said to."""
    if not torch.cuda.is_available():
        print("launches: PyTorch sees no CUDA device here", file=sys.stderr)
        return 2
    over = False
    for name, phases in json.loads(BUDGETS.read_text()).items():
        counted = sum(phases[phase][0] for phase in OF_ONE_STEP)
        with tempfile.TemporaryDirectory() as folder:
            measured = per_step((f"{name}.yaml", "train.capture", "never"), Path(folder), torch.device("cuda", 0))
        print(json.dumps({"config": name, "profiler": measured, "ledger": counted}), flush=True)
        over |= measured > counted
    return int(over)


def epochs() -> int:
    """The benchmark, on the GPU where there is one."""
    return bench.main(["epochs", "--device", "cuda" if torch.cuda.is_available() else "cpu"])


PARTS: dict[str, Callable[[], int]] = {"tests": tests, "launches": launches, "epochs": epochs}


if __name__ == "__main__":
    sys.exit(main())
