"""Measures our implementation against another in one run: ``graphbench bench NAME [--device cuda] [--json]``.

The last line is one JSON object: ``{"name", "cases": [{"case", "ours", "peer", "ratio", "target", "met"}, ...]}``
with seconds (memory: MiB), and ratio = peer / ours (above 1: ours is faster). With ``--device cuda`` the first GPU
computes, and cases name it; benchmarks of the host refuse it. A benchmark is no test: run it on a quiet
machine.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphbench import shipped
from graphbench.command_line import CommandParser, docstring_of
from graphbench.errors import UserError
from graphbench.exit_codes import exit_codes

if TYPE_CHECKING:
    from graphbench.benchmarks.case import Case

BENCHMARKS = (
    "distance",
    "epochs",
    "geco",
    "gps_step",
    "gradformer_figure7",
    "loop",
    "sfi_step",
    "sgformer",
    "sgformer_table4",
    "sparse_flow",
)
"""Computations of a model, on the device of ``--device``: modules with ``run(device)``."""

HOST_BENCHMARKS = ("batching", "encodings", "large_graph", "out_of_core", "peers", "records", "start_up", "tables")
"""Work of the host, without a GPU: modules with ``run()``; ``peers`` is told where the peers' programs lie."""

PAGE = "page"
"""Runs what docs/performance.md shows, and writes it (:mod:`graphbench.benchmarks.page`)."""

STORED = ("large_graph", "out_of_core", PAGE)
"""Hours of measuring that end in a page of docs/: only a checkout has it."""


@exit_codes
def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one benchmark and prints a table (unless ``--json``) and the JSON line."""
    names = sorted([*BENCHMARKS, *HOST_BENCHMARKS, PAGE])
    about = {name: docstring_of(Path(__file__).with_name(f"{name}.py")) for name in names}
    listed = "\n".join(f"  {name:<20}{text.splitlines()[0]}" for name, text in about.items())
    parser = CommandParser(description=f"{__doc__}\nbenchmarks:\n{listed}")
    parser.add_argument("name", choices=names, metavar="NAME", help="one of the above")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default: cpu")
    parser.add_argument("--only", metavar="LABEL", help="epochs, peers: one of their comparisons, such as 'ZINC'")
    parser.add_argument("--epochs", type=int, metavar="N", help="epochs: how many count")
    parser.add_argument(
        "--against", nargs="*", metavar="NAME", help="epochs: measure beside these alone, of steps, pyg, compiled"
    )
    parser.add_argument("--json", action="store_true", help="the JSON line only")
    parser.add_argument("--graphgps", type=Path, metavar="PATH", help="peers: a checked-out copy of GraphGPS")
    parser.add_argument("--sgformer", type=Path, metavar="PATH", help="peers: a checked-out copy of SGFormer")
    parser.add_argument(
        "--groups", nargs="+", default=(), metavar="NAME", help=f"{PAGE}: measure these, and only these"
    )
    options = parser.parse_args(arguments)
    if options.name in STORED and not shipped.is_checkout():
        raise UserError(f"bench {options.name} writes its numbers into docs/ of a checkout: run it in one.")
    if options.name != PAGE:
        _report(options.name, options)
        return 0
    from graphbench.benchmarks import page

    page.measure(lambda name: _report(name, options), options.groups)
    return 0


def _report(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Runs a benchmark and prints what it found."""
    cases = []
    for case in _measure(name, options):
        ours, peer = statistics.median(case.ours), statistics.median(case.peer)
        # Pairs ran back to back: the median of their ratios is steadier than the ratio of the medians.
        ratio = statistics.median(p / o for o, p in zip(case.ours, case.peer, strict=True))
        met = ratio >= case.target
        facts = {"peer_name": case.peer_name, "unit": case.unit}
        numbers = {"ours": ours, "peer": peer, "ratio": ratio, "target": case.target, "met": met}
        cases.append({"case": case.name, **numbers, **facts})
        if not options.json:
            scale, unit = (1e3, "ms") if case.unit == "s" else (1, case.unit)
            print(
                f"{case.name}: ours {ours * scale:.3f} {unit}, {case.peer_name} {peer * scale:.3f} {unit}, "
                f"ratio {ratio:.3f} "
                f"(target {case.target:.3f}, {'met' if met else 'missed'}; {len(case.ours)} pairs)"
            )
    print(json.dumps({"name": name, "cases": cases}), flush=True)
    return cases


def _measure(name: str, options: argparse.Namespace) -> Iterable[Case]:
    import torch

    device = options.device
    if device == "cuda" and name in HOST_BENCHMARKS:
        raise UserError(f"--device {device}: '{name}' measures the host alone. On a GPU run: {', '.join(BENCHMARKS)}.")
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda: PyTorch sees no CUDA device here. Allowed: cpu.")
    module = importlib.import_module(f"graphbench.benchmarks.{name}")
    arguments: list[Any] = []
    if name == "peers":
        arguments = [{"graphgps": options.graphgps, "sgformer": options.sgformer}]
    elif name not in HOST_BENCHMARKS:
        arguments = [torch.device("cpu") if device == "cpu" else torch.device(device, 0)]
    of_epochs = {"epochs": options.epochs, "against": options.against} if name == "epochs" else {}
    keywords = {key: value for key, value in of_epochs.items() if value is not None}
    if options.only is not None:
        arguments += [module.chosen(options.only)] if name in ("epochs", "peers") else []
    return module.run(*arguments, **keywords)
