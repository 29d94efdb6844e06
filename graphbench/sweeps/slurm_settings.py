"""Resources of a SLURM job: the block ``sweep.slurm`` of a sweep file, and ``--slurm KEY=VALUE``.

::

    sweep:
      slurm: {time: "4:00:00", memory: 16G, cpus: 4, gpus: 1, partition: gpu, account: me, requeue: true, runs: 1,
              options: [--constraint=a100], setup: [module load cuda]}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphbench.errors import UserError, unknown
from graphbench.sweeps.document import LocatedValue


@dataclass(frozen=True)
class SlurmSettings:
    """Options of ``sbatch``; None leaves one to the cluster.

    Attributes:
        time: limit of one job, as SLURM writes it (``4:00:00``, ``2-00:00:00``).
        memory: memory of one job, e.g. ``16G``.
        cpus: processor cores of one job, and threads of a run.
        gpus: number, or ``TYPE:NUMBER``.
        partition: partition that it runs in.
        account: who pays.
        requeue: whether a job that is preempted, or comes close to its time limit, is queued again and goes on.
        runs: runs that one job trains, one after another.
        options: further options of ``sbatch``, one each.
        setup: lines of shell before Python starts.
    """

    time: str | None = None
    memory: str | None = None
    cpus: int = 1
    gpus: str | None = None
    partition: str | None = None
    account: str | None = None
    requeue: bool = True
    runs: int = 1
    options: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()

    def directives(self) -> list[str]:
        """The options that are set, as they are written behind ``#SBATCH``."""
        named: dict[str, str | int | None] = {"time": self.time, "mem": self.memory, "gpus": self.gpus}
        named |= {"partition": self.partition, "account": self.account, "cpus-per-task": self.cpus}
        options = [f"--{name}={value}" for name, value in named.items() if value is not None]
        return [*options, "--requeue" if self.requeue else "--no-requeue", *self.options]


_KEYS = tuple(field.name for field in dataclasses.fields(SlurmSettings))


def read_slurm(section: LocatedValue) -> SlurmSettings:
    """The block of a sweep file.

    Raises:
        UserError: an unknown key, or a value that is none.
    """
    values = section.mapping("slurm", _KEYS)
    return SlurmSettings(**{key: _check_value(key, value.plain(), value.where) for key, value in values.items()})


def with_flags(settings: SlurmSettings, flags: Sequence[str]) -> SlurmSettings:
    """The settings with those of the command line, ``KEY=VALUE`` each; of lists, one entry is added per flag.

    Raises:
        UserError: an unknown key, or a value that is none.
    """
    lists: dict[str, tuple[str, ...]] = {"options": settings.options, "setup": settings.setup}
    changes: dict[str, Any] = {}
    for flag in flags:
        key, equals, text = flag.partition("=")
        if not equals:
            raise UserError(f"--slurm takes KEY=VALUE, received {flag!r}.")
        if key not in _KEYS:
            raise unknown("key", key, _KEYS, "--slurm")
        if key in lists:
            lists[key] = (*lists[key], text)
        else:
            words: Mapping[str, Any] = {"true": True, "false": False}
            value = words.get(text.lower(), text) if key == "requeue" else text
            whole = key in ("cpus", "runs") and text.isdigit()
            changes[key] = _check_value(key, int(text) if whole else value, "--slurm")
    return dataclasses.replace(settings, **{**changes, **lists})


def _check_value(key: str, value: Any, where: str) -> Any:
    description, is_valid = _TYPES[key]
    if not is_valid(value):
        raise UserError(f"{where}: {key} is {description}, received {value!r}.")
    if key in ("options", "setup"):
        return tuple(value)
    return str(value) if key in ("memory", "gpus") else value


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\n" not in value


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 1


def _is_lines(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


_TEXT = ("a text", _is_text)
_COUNT = ("a whole number from 1 on", _is_count)
_TYPES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "time": ('a text such as "4:00:00" (in YAML in quotes: without, it is a number)', _is_text),
    "memory": ("a text such as 16G, or a number of megabytes", lambda value: _is_text(value) or _is_count(value)),
    "cpus": _COUNT,
    "gpus": ("a number, or TYPE:NUMBER", lambda value: _is_text(value) or _is_count(value)),
    "partition": _TEXT,
    "account": _TEXT,
    "requeue": ("true or false", lambda value: type(value) is bool),
    "runs": _COUNT,
    "options": ("a list of texts, e.g. [--constraint=a100]", _is_lines),
    "setup": ("a list of lines of shell", _is_lines),
}
