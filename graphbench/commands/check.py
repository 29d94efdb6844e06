"""Explains a configuration: ``graphbench check FILE [KEY VALUE ...] [--all] [--measure] [--contract]``.

Every value that was set, with the file and line that set it; ``--all`` has the defaults, too. Then what it builds:
data set, metric, layers, parameters, and the memory of parameters, gradients and optimiser. ``--measure`` trains two
epochs in a temporary folder and says how long they took, how much memory they held, and whether graphs of a batch
change each other's predictions; it needs the data. ``--contract`` checks what comes from plug-ins (model, layers, head,
encoders, transforms, loss, metrics) as ``graphbench.testing`` does, on random graphs, as the configuration makes it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from os.path import normpath
from typing import TYPE_CHECKING

from graphbench.command_line import CommandParser
from graphbench.config import load_config
from graphbench.config.schema import SCHEMA
from graphbench.exit_codes import exit_codes
from graphbench.frozen_imports import frozen_imports

if TYPE_CHECKING:
    from graphbench.config import Config


@exit_codes
def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the explanation."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("file", metavar="FILE", help="YAML file, or name of a shipped configuration")
    parser.add_argument("overrides", nargs="*", default=[], metavar="KEY VALUE", help="as for graphbench train")
    parser.add_argument("--all", action="store_true", help="list values that nothing has set, too")
    parser.add_argument("--measure", action="store_true", help="train two epochs in a temporary folder")
    parser.add_argument("--contract", action="store_true", help="check what comes from plug-ins on random graphs")
    options = parser.parse_intermixed_args(arguments)
    config = load_config(options.file, options.overrides)
    _print_values(config, everything=options.all)
    _print_costs(config)
    if options.contract:
        from graphbench.commands.contract import print_contract

        print_contract(config)
    if options.measure:
        _print_measured(options)
    return 0


def _print_values(config: Config, *, everything: bool) -> None:
    values = config.values
    shown = {name: value for name, value in values.items() if everything or config.is_set(name)}
    width = max(map(len, shown), default=0)
    for name, value in shown.items():
        key = SCHEMA.get(name)
        remark = "  (no influence on results)" if key is not None and (key.neutral or key.inert) else ""
        print(f"{name.ljust(width)}  {json.dumps(value)}  {normpath(config.origin.get(name, 'default'))}{remark}")
    for notice in config.notices:
        print(f"note: {notice}")


def _print_costs(config: Config) -> None:
    with frozen_imports():
        from graphbench.preflight import describe

    summary = describe(config)
    held = summary.params * 4 * (2 + _kept_per_parameter(config))
    selected_by = "loss" if config.selects_by_loss else summary.metric
    print(f"\nhash {config.hash}; {summary.dataset}, best epoch by validation {selected_by}")
    print(f"layers: {', '.join(summary.layers)}")
    print(
        f"{summary.params:,} trainable parameters: {held / 2**20:.1f} MiB with gradients and "
        f"{config.tree.optim.optimizer}, activations of a batch not counted"
    )


def _kept_per_parameter(config: Config) -> float:
    """Numbers that the optimiser keeps per parameter, beside the gradient, after a step."""
    import torch

    from graphbench.factory.training import optimizer_of

    parameter = torch.nn.Parameter(torch.ones(16, 16))
    optimizer = optimizer_of(config, [{"params": [parameter]}])
    parameter.square().sum().backward()
    optimizer.step()
    kept = [value for value in optimizer.state[parameter].values() if isinstance(value, torch.Tensor)]
    return sum(value.numel() for value in kept if value.dim()) / parameter.numel()


def _print_measured(options: argparse.Namespace) -> None:
    from graphbench.experiment import run
    from graphbench.factory.batch_dependence import batch_dependence
    from graphbench.runs.aggregate import aggregate

    with tempfile.TemporaryDirectory() as folder:
        shortened = {"optim.max_epoch": "2", "out_dir": folder, "train.enable_ckpt": "False", "print": "file"}
        overrides = [*options.overrides, *(text for pair in shortened.items() for text in pair)]
        config = load_config(options.file, overrides)
        run(config)
        (record,) = aggregate(f"{folder}/{config.name}").runs
    print(
        f"measured over two epochs, training and evaluation: {record.time_per_epoch:.2f} s per epoch"
        + (f", peak memory {record.peak_memory / 2**20:,.0f} MiB" if record.peak_memory else "")
        + f" on {record.environment.get('gpu') or record.environment.get('cpu')}"
    )
    dependence = batch_dependence(config)
    if dependence is not None:
        print(dependence)
