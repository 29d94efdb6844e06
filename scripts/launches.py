"""Launches, copies and waits of a training step and an evaluation batch, as a GPU would see them.

    python -m scripts.launches [configuration ...] [--kernels] [--write] [--profiler]

Counted without a GPU (tests/launches.py) on graphs as large as those of the data set. ``--kernels`` lists what is
launched; ``--write`` makes the numbers the budget, above which tests/test_launches.py fails. ``--profiler`` trains on a
GPU instead and counts what the profiler sees of a step without CUDA graphs: a JSON line each, and exit code 1 where
that is more than the budget.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch

import tests.second_device  # noqa: F401  first: it registers its device before anything is differentiated
from graphbench import atomic
from graphbench.benchmarks.epochs import per_step
from graphbench.command_line import CommandParser
from tests.launches import BUDGETS, CONFIGURATIONS, Ledger, count


def main() -> int:
    """Counts, prints, and writes the budgets if asked to."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("configurations", nargs="*", metavar="configuration", help=f"of {', '.join(CONFIGURATIONS)}")
    parser.add_argument("--kernels", action="store_true", help="list the kernels of every phase, most launched first")
    parser.add_argument("--write", action="store_true", help=f"write {BUDGETS.name}")
    parser.add_argument("--profiler", action="store_true", help="count on a GPU")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.configurations if name not in CONFIGURATIONS]
    if unknown:
        parser.error(f"counted configurations are {', '.join(CONFIGURATIONS)}; received {', '.join(unknown)}")
    budgets = json.loads(BUDGETS.read_text()) if BUDGETS.exists() else {}
    if arguments.profiler:
        return profiled(arguments.configurations or list(CONFIGURATIONS), budgets)
    for name in arguments.configurations or CONFIGURATIONS:
        with tempfile.TemporaryDirectory() as cache_dir:
            ledger = count(name, Path(cache_dir))
        budgets[name] = ledger.totals()
        print(_report(name, ledger, arguments.kernels))
    if arguments.write:
        rows = (
            f"  {json.dumps(name)}: {{\n"
            + ",\n".join(f"    {json.dumps(phase)}: {numbers}" for phase, numbers in budgets[name].items())
            + "\n  }"
            for name in CONFIGURATIONS
        )
        atomic.write_text(BUDGETS, "{\n" + ",\n".join(rows) + "\n}\n")
    return 0


def profiled(names: Sequence[str], budgets: dict[str, dict[str, list[int]]]) -> int:
    """What the profiler counts; 1 where a step launches more than its budget, 2 without a GPU."""
    if not torch.cuda.is_available():
        print("--profiler: PyTorch sees no CUDA device here", file=sys.stderr)
        return 2
    over = False
    for name in names:
        counted = budgets[name]["eager"][0] + sum(budgets[name][phase][0] for phase in ("clip", "optimizer"))
        with tempfile.TemporaryDirectory() as folder:
            measured = per_step((f"{name}.yaml", "train.capture", "never"), Path(folder), torch.device("cuda", 0))
        print(json.dumps({"config": name, "profiler": measured, "ledger": counted}), flush=True)
        over |= measured > counted
    return int(over)


def _report(name: str, ledger: Ledger, kernels: bool) -> str:
    phases = ledger.totals()
    of_step = [numbers for phase, numbers in phases.items() if phase not in ("eager", "evaluation")]
    step = [sum(values) for values in zip(*of_step, strict=True)]
    lines = [name, f"  {'':12}{'launches':>9}{'copies':>8}{'waits':>7}"]
    for phase, numbers in {**phases, "step": step}.items():
        lines.append(f"  {phase:12}" + "{:9}{:8}{:7}".format(*numbers))
        if kernels and phase in phases:
            lines += [f"    {times:5} {kernel}" for kernel, times in ledger.launches[phase].most_common()]
            lines += [f"    {times:5} waits: {place}" for place, times in Counter(ledger.waits[phase]).most_common()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
