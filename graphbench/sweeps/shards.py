"""Encodings of a data set in shards, each of them a piece of work for a launcher.

Everything is in ``<cache>/shards/<configuration>-<hash>/``: what the processes print, and the job arrays of SLURM.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from graphbench.config import Config, load_config
from graphbench.data.files.roots import Roots
from graphbench.errors import RunFailed, UserError
from graphbench.sweeps.run_spec import RunResult, Spec, capture_result
from graphbench.sweeps.work_item import RunKey, WorkItem

if TYPE_CHECKING:
    from graphbench.data.builder import LoadedDataset
    from graphbench.sweeps.launchers import LaunchOptions

logger = logging.getLogger("graphbench")


@dataclass(frozen=True)
class ShardSpec(Spec):
    """One shard of the encodings of a configuration.

    Attributes:
        file: file of the configuration.
        overrides: ``(KEY, VALUE, ...)``.
        config_hash: hash of the configuration when the shards were planned.
        number: number of the shard, from 0.
        shards: number of shards.
        log_file: file for what is printed meanwhile.
    """

    file: Path
    overrides: tuple[str, ...]
    config_hash: str
    number: int
    shards: int
    log_file: Path

    def plain(self) -> dict[str, Any]:
        """Dictionary of plain values, as JSON takes it."""
        return asdict(self) | {"file": str(self.file), "log_file": str(self.log_file)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Inverse of :meth:`plain`, before or after JSON."""
        paths = {"file": Path(plain["file"]), "log_file": Path(plain["log_file"])}
        return cls(**{**plain, **paths, "overrides": tuple(plain["overrides"])})

    def run(self) -> RunResult:
        """Computes it, unless it is on disk."""
        return capture_result(self._compute, self.log_file)

    def _compute(self) -> None:
        from graphbench.factory.data import encode_shards

        config, loaded = _read(self.file, self.overrides)
        if config.hash != self.config_hash:
            raise UserError(f"{self.file} was changed after the shards were begun. Start them again.")
        logging.basicConfig(level=logging.INFO, format="%(message)s")
        encode_shards(config, loaded, [self.number], self.shards, logger.info)


@functools.lru_cache(maxsize=1)
def _read(file: Path, overrides: tuple[str, ...]) -> tuple[Config, LoadedDataset]:
    """Kept for the next shard of this process."""
    from graphbench.factory.data import read_data

    config = load_config(file, list(overrides))
    return config, read_data(config)


@dataclass
class ShardItem(WorkItem):
    """A shard on its way through a launcher.

    Attributes:
        folder: folder of all shards of the configuration.
        described: configuration, encodings, data set.
        shard: specification of the shard.
        attempts: number of starts.
    """

    folder: Path
    described: tuple[str, str, str]
    shard: ShardSpec
    attempts: int = field(default=0, compare=False)

    @property
    def keys(self) -> tuple[RunKey, ...]:
        """Folder and number, which differs from those of another number of shards."""
        return ((str(self.folder), f"{self.shard.number}/{self.shard.shards}"),)

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """Configuration, encodings, data set, and which shard."""
        return *self.described, f"shard {self.shard.number} of {self.shard.shards}"

    @property
    def log_file(self) -> Path:
        """Log file of all shards."""
        return self.shard.log_file

    def spec(self) -> ShardSpec:
        """Specification that a worker needs to compute the shard."""
        return self.shard

    def limited_to(self, keys: Collection[RunKey]) -> ShardItem | None:
        """Item itself where one of the keys is its own, else None."""
        return self if self.key in keys else None


def compute_shards(
    file: Path, overrides: Sequence[str], config: Config, loaded: LoadedDataset, count: int, options: LaunchOptions
) -> bool:
    """Has a launcher compute all shards that are missing.

    Args:
        file: file of the configuration.
        overrides: ``[KEY, VALUE, ...]``.
        config: configuration in the file.
        loaded: from :func:`~graphbench.factory.data.read_data`, so that the processes find the data in the cache.
        count: number of shards.
        options: which launcher, and how.

    Returns:
        Whether all shards are there; False: they are in SLURM's queue, or would be.

    Raises:
        UserError: the launcher is not there.
        RunFailed: a shard could not be computed; the others are.
    """
    from graphbench.factory.data import encode_shards, missing
    from graphbench.factory.transforms import build_transforms
    from graphbench.sweeps import launchers
    from graphbench.sweeps.progress import SweepProgress
    from graphbench.sweeps.slurm import Arrays
    from graphbench.sweeps.slurm_settings import SlurmSettings

    folder = Roots.from_environment(config.tree.dataset.dir).cache.resolve() / "shards" / f"{config.name}-{config.hash}"
    described = (config.name, ", ".join(build_transforms(config)), loaded.card.name)
    items = [
        ShardItem(
            folder,
            described,
            ShardSpec(file.resolve(), tuple(overrides), config.hash, number, count, folder / "shards.log"),
        )
        for number in missing(config, loaded, count)
    ]
    arrays = Arrays(folder, f"{config.name}.{count}-shards") if options.launcher == "slurm" else None
    if arrays is not None and items:
        launchers.submit(arrays, items, SlurmSettings(), options)
    if options.dry_run or (arrays and items and not options.wait):
        return False
    with SweepProgress(count, count - len(items)) as progress:
        if items:
            launchers.launch(items, progress, arrays, options)
    launchers.print_failures(progress.failures)
    if progress.failures:
        raise RunFailed(f"{config.name}: {len(progress.failures)} of {count} shards failed, the others are kept.")
    return encode_shards(config, loaded, [count - 1], count)  # whoever wrote the last one may have been killed since
