"""Gets data ready ahead of time: ``graphbench prepare NAME... [--dir DIR] [--offline]``.

NAME is a configuration (``gps-peptides-func``, or a file): its data set is downloaded, processed, and the
encodings that its model reads are computed; or ``format/name`` as in ``dataset.format`` and ``dataset.name``
(``PyG-ZINC/subset``): downloaded and processed. Runs find all of it in the cache. What is there already is kept, an
interrupted download goes on where it ended.

Encodings of many graphs can be computed in shards, ``--shards N``: one after the other, in the memory of one; by
``--jobs J`` processes; through ``--launcher slurm`` or ``ray`` on the machines of a cluster that share the cache; or
each by a process of its own that is told ``--shard K`` (0 .. N - 1). What is finished is kept; the last one puts all of
them together, without a copy.

With ``--offline`` nothing is downloaded: data that is at hand is prepared, and for everything else one message says
which files are missing and where to put them. Exit code 2 if anything could not be prepared.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from graphbench import plug_ins, registry, shipped
from graphbench.command_line import CommandParser
from graphbench.config import load_config
from graphbench.errors import Interrupted, RunFailed, UserError
from graphbench.exit_codes import exit_codes
from graphbench.sweeps import launchers

if TYPE_CHECKING:
    from graphbench.config import Config
    from graphbench.data.builder import LoadedDataset
    from graphbench.sweeps.launchers import LaunchOptions

logger = logging.getLogger("graphbench")


def prepare(
    name: str, folder: str | None, count: int, shard: int | None, launch: LaunchOptions
) -> tuple[LoadedDataset, list[str] | None]:
    """One data set, and the names of the encodings that were computed or found; None: shards are missing.

    Args:
        name: a YAML file or ``format/name``.
        folder: where data lies and goes; None: ``dataset.dir``.
        count: number of shards of the encodings; 0: none.
        shard: the only one that is computed; None: all.
        launch: what computes them.

    Raises:
        UserError: no such configuration or data set, or its files are missing.
        RunFailed: a process could not compute its shard.
    """
    from graphbench.data.builder import read
    from graphbench.data.files.roots import Roots
    from graphbench.factory.data import dataset_context, encode, encode_shards, read_data
    from graphbench.factory.split_data import hides_links
    from graphbench.factory.transforms import build_transforms

    file = shipped.configuration(name)
    if file.is_file() or name.endswith((".yaml", ".yml")):
        overrides = ["dataset.dir", folder] if folder else []
        config = load_config(file, overrides)
        loaded = read_data(config)
        if hides_links(loaded.card):
            _encode_splits(config, loaded, count)
            return loaded, list(build_transforms(config))
        if launch.is_given:
            from graphbench.sweeps.shards import compute_shards

            if not compute_shards(file, overrides, config, loaded, count, launch):
                return loaded, None
        elif count:
            numbers = range(count) if shard is None else [shard]
            if not encode_shards(config, loaded, numbers, count, logger.info):
                return loaded, None
        return encode(config, loaded, logger.info), list(build_transforms(config))
    family, _, own = name.partition("/")
    if not own:
        raise UserError(f"'{name}' is neither a YAML file nor format/name, e.g. PyG-ZINC/subset.")
    if not registry.register_family_member(registry.DATASETS, family):
        plug_ins.load_installed()
    kind = registry.lookup(registry.DATASETS, family)
    config = load_config({"dataset.name": own}, name=family)  # a data set without a card has the task by default
    roots = Roots.from_environment(folder or config.tree.dataset.dir)
    return read(registry.construct(kind, {}, dataset_context(config)), roots), []


def _encode_splits(config: Config, loaded: LoadedDataset, shards: int) -> None:
    """Computes the encodings of a graph once per planned split, without the links that it asks about.

    Raises:
        UserError: in shards, which are parts of the graphs of a data set.
    """
    from graphbench.factory.data import build_splits
    from graphbench.factory.split_data import data_of_split
    from graphbench.runs.planned import planned_runs

    if shards:
        raise UserError(
            f"--shards cuts a data set into parts of its graphs; {loaded.card.name} is one graph, whose encodings are "
            "computed for every split. Leave it out."
        )
    for run in planned_runs(config, 1):
        data_of_split(config, loaded, build_splits(config, loaded, run.seed, run.split_index), logger.info)


def _launch_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> LaunchOptions:
    """Its options of the launcher; refuses options that contradict each other."""
    launch = launchers.parsed(parser, options)
    if options.shards < 0 or (options.shard is not None and not 0 <= options.shard < options.shards):
        parser.error(f"--shard must lie in 0 .. N - 1 of --shards N; received {options.shard} of {options.shards}")
    if launch.is_given and (not options.shards or options.shard is not None):
        parser.error("--jobs and --launcher start the shards of --shards N, without --shard")
    if launch.dry_run and launch.launcher != "slurm":
        parser.error("--dry_run needs --launcher slurm")
    return launch


@exit_codes
def main(arguments: Sequence[str] | None = None) -> int:
    """Prepares everything that was named; what fails does not keep the others from it."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME", help="YAML file, or format/name")
    parser.add_argument("--dir", help="where data lies and goes; default: dataset.dir")
    parser.add_argument("--offline", action="store_true", help="download nothing, say what is missing")
    parser.add_argument(
        "--shards", type=int, default=0, metavar="N", help="compute encodings in N shards of the graphs"
    )
    parser.add_argument("--shard", type=int, metavar="K", help="of these, compute number K (from 0) and no other")
    launchers.add_arguments(parser, "shards")
    parser.add_argument("--dry_run", action="store_true", help="slurm: print the scripts, submit nothing")
    options = parser.parse_args(arguments)
    launch = _launch_options(parser, options)
    from graphbench.data.files.download import no_downloads

    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    told: dict[str, int] = {}
    with no_downloads() if options.offline else nullcontext():
        for name in dict.fromkeys(options.names):
            start = time.monotonic()
            try:
                loaded, encodings = prepare(name, options.dir, options.shards, options.shard, launch)
            except KeyboardInterrupt:
                raise Interrupted("what was finished is kept.") from None
            except (UserError, RunFailed) as error:
                if str(error) not in told:  # several configurations may lack the same data set
                    print(f"error: {error}", file=sys.stderr)
                told[str(error)] = error.exit_code
                continue
            store = loaded.store
            missing = f"shard {options.shard} of {options.shards} is there, others are missing"
            if options.shard is None:
                missing = f"in {options.shards} shards, not all of which are there"
            ready = missing if encodings is None else ", ".join(encodings) or "none"
            print(
                f"{name}: {loaded.card.name}, {store.num_graphs:,} graphs, {store.num_nodes:,} nodes, "
                f"{store.num_edges:,} edges; encodings: {ready}; "
                f"ready after {time.monotonic() - start:.1f} s",
                flush=True,
            )
    return min(told.values(), default=0)
