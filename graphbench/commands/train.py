"""Trains and evaluates configurations (``graphbench train``): arguments, messages, exit codes.

0 done; 2 the input is wrong (one message, no traceback); 3 the run failed, state kept; 130 interrupted, state kept.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from graphbench import __version__, shipped
from graphbench.command_line import CommandParser
from graphbench.errors import RunFailed, UserError
from graphbench.exit_codes import exit_codes
from graphbench.frozen_imports import frozen_imports
from graphbench.plug_ins import CONSENT
from graphbench.runs import json_text


@exit_codes
def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        arguments: without the program's name; default: those of this process.

    Returns:
        The exit code.
    """
    options = _parse(arguments)
    if options.allow_plugins:
        os.environ[CONSENT] = "1"  # of the processes that this one starts, too
    return _dry_run(options) if options.dry_run else _run(options)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = CommandParser(description="Train and evaluate configurations.")
    parser.add_argument(
        "--cfg",
        nargs="+",
        default=[],
        metavar="FILE",
        help="YAML file or name of a shipped configuration; several are trained in turn and compared",
    )
    parser.add_argument("--version", action="version", version=f"graphbench {__version__}")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="runs with seed, seed + 1, ...")
    parser.add_argument(
        "--together",
        action="store_true",
        help="train the runs of a configuration at the same time in one process, on a GPU each on a stream of its own",
    )
    parser.add_argument("--mark_done", action="store_true", help="rename FILE to FILE_done when all runs are finished")
    parser.add_argument("--dry_run", action="store_true", help="build the model, print one JSON line, train nothing")
    parser.add_argument(
        "--overwrite", action="store_true", help="start afresh; earlier runs are moved aside, not deleted"
    )
    parser.add_argument(
        "--allow_plugins", action="store_true", help="import the code that a configuration names, wherever it lies"
    )
    parser.add_argument(
        "--profile", action="store_true", help="profile true: watch ten training steps with PyTorch's profiler"
    )
    parser.add_argument("--out_dir", metavar="DIR", help="short for the key out_dir: root of all outputs")
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY VALUE",
        help="e.g. optim.base_lr 0.001 seed 7; behind the configurations, where these come without --cfg",
    )
    options = parser.parse_intermixed_args(arguments)
    # In `--cfg FILE key value` argparse gives the pairs to --cfg; only the leading names of files belong to it.
    words = [*options.cfg, *options.overrides] if options.cfg else options.overrides
    if not words:
        parser.error("which configuration? Give --cfg FILE, or a name")
    pairs = list(itertools.dropwhile(_is_configuration, words[1:]))
    options.cfg = [str(shipped.configuration(name)) for name in words[: len(words) - len(pairs)]]
    options.overrides = [
        *pairs,
        *(["out_dir", options.out_dir] if options.out_dir else []),
        *(["profile", "true"] if options.profile else []),
    ]
    if options.repeat < 1:
        parser.error(f"--repeat must be at least 1, received {options.repeat}")
    return options


def _is_configuration(word: str) -> bool:
    return word.endswith((".yaml", ".yml", ".yaml_done")) or shipped.configuration(word).is_file()


def _run(options: argparse.Namespace) -> int:
    from graphbench.config import load_config

    configs = [load_config(path, options.overrides) for path in options.cfg]  # before seconds are spent on imports
    with frozen_imports():
        from graphbench.commands.comparison import check_all, compare
        from graphbench.experiment import run

    asked = {"repeat": options.repeat, "overwrite": options.overwrite, "together": options.together}
    # run() checks its own configuration; of several, the last must not turn out wrong after the first was trained.
    several = check_all(configs, **asked) if len(configs) > 1 else []
    code, failures, speaks, finished = 0, [], True, []
    for path, config in zip(map(Path, options.cfg), configs, strict=True):
        try:
            line: Mapping[str, object] | None = run(config, **asked)
        except (UserError, RunFailed) as error:
            if not several or several[0].fabric.world_size > 1:  # the other processes do not know of it
                raise
            code = max(code, error.exit_code)
            failures.append(str(error))
            line = {"config": config.name, "error": str(error)}
            print(f"{config.name} failed: {error}", file=sys.stderr)
        else:
            failures.append("")
            speaks = line is not None  # in a data-parallel run the first process does
            if not speaks:
                continue
            finished.append(path)
        print(json_text.dumps(line), flush=True)
    for path in finished if options.mark_done else ():  # last, so that an interrupted command can be repeated
        path.rename(path.with_name(path.name + "_done"))
    if several and speaks:
        compare(several, failures)
    return code


def _dry_run(options: argparse.Namespace) -> int:
    from graphbench.config import load_config

    with frozen_imports():
        from graphbench.preflight import describe

    code = 0
    for path in options.cfg:
        try:
            config = load_config(path, options.overrides)
            for notice in config.notices:
                print(notice, file=sys.stderr)
            line = {"config": Path(path).stem, **dataclasses.asdict(describe(config))}
        except UserError as error:
            if len(options.cfg) == 1:
                raise
            line, code = {"config": Path(path).stem, "error": str(error)}, UserError.exit_code
        print(json_text.dumps(line), flush=True)
    return code
