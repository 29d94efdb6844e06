"""Run records wherever they are kept: in a folder per run, or packed, a line per run.

::

    <root>/<config>/<run id>/record.json     as a run writes it
    <name>.jsonl                             packed: {"path": "<config>/<run id>", ...record}, sorted by path
    <name>.configurations.jsonl              {"config", "config_hash", "values"}: settings, once per configuration

A packed file stands for its root: ``<name>.jsonl/<config>`` is the path of a configuration's records. ``values`` are
all settings by dotted key that the hash covers; a record gets them back as its field ``settings``.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import yaml

from graphbench import atomic
from graphbench.config.config import flat
from graphbench.errors import UserError
from graphbench.runs.record import RunRecord

PACKED = ".jsonl"
CONFIGURATIONS = ".configurations.jsonl"
_Contents = dict[str, dict[str, Any]]
logger = logging.getLogger("graphbench")


class RecordSource(ABC):
    """The records of one configuration.

    Args:
        path: ``<root>/<config>`` or ``<name>.jsonl/<config>``; need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def config(self) -> str:
        """Name of the configuration."""
        return self.path.name

    @abstractmethod
    def run_ids(self) -> list[str]:
        """Runs that there are: numbers in their order, then names."""

    @abstractmethod
    def text(self, run_id: str) -> str | None:
        """The record of a run as JSON; None where there is none."""

    def read(self, run_id: str) -> RunRecord | None:
        """The record of a run; None where there is none, or none of ours."""
        text = self.text(run_id)
        try:
            return None if text is None else RunRecord.from_json(text)
        except ValueError:
            return None

    def records(self, run_ids: Sequence[str]) -> Mapping[str, RunRecord | None]:
        """The records of some runs, None as of :meth:`read`."""
        return {run_id: self.read(run_id) for run_id in run_ids}

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The configuration by dotted key.

        Raises:
            UserError: it is not known.
        """


class RecordFolder(RecordSource):
    """One folder per run below that of the configuration; ``agg`` and what was renamed aside are no runs."""

    def run_ids(self) -> list[str]:  # noqa: D102
        with os.scandir(self.path) if self.path.is_dir() else nullcontext(()) as entries:
            return sorted((entry.name for entry in entries if _is_run(entry)), key=_natural)

    def text(self, run_id: str) -> str | None:  # noqa: D102
        record = RunRecord.read(self.path / run_id / "record.json")
        return None if record is None else record.to_json()

    def read(self, run_id: str) -> RunRecord | None:  # noqa: D102
        return RunRecord.read(self.path / run_id / "record.json")

    def records(self, run_ids: Sequence[str]) -> Mapping[str, RunRecord | None]:  # noqa: D102
        read = _reader.get()
        return super().records(run_ids) if read is None else read(self, run_ids)

    def settings(self) -> dict[str, Any]:
        """All keys, from ``config.yaml``: of the latest start."""
        file = self.path / "config.yaml"
        try:
            return flat(yaml.safe_load(file.read_text(encoding="utf-8")))
        except (OSError, AttributeError, ValueError, yaml.YAMLError):
            raise UserError(f"{file}: missing, or not the configuration of a run.") from None


class PackedRecords(RecordSource):
    """The lines of a packed file that belong to one configuration."""

    @property
    def _contents(self) -> _Contents:
        return _by_config(self.path.parent).get(self.config, {})

    def run_ids(self) -> list[str]:  # noqa: D102
        return sorted(self._contents, key=_natural)

    def text(self, run_id: str) -> str | None:  # noqa: D102
        content = self._contents.get(run_id)
        return None if content is None else json.dumps(content)

    def settings(self) -> dict[str, Any]:
        """Settings that the hash covers, of the run that ended last."""
        latest = max(self._contents.values(), key=lambda content: content.get("ended") or "", default={})
        if "settings" not in latest:
            raise UserError(f"{self.path.parent.with_suffix(CONFIGURATIONS)}: lacks the settings of {self.config}.")
        return dict(latest["settings"])


_reader: ContextVar[Callable[[RecordFolder, Sequence[str]], Mapping[str, RunRecord | None]] | None]
_reader = ContextVar("reader", default=None)


@contextmanager
def read_through(reader: Callable[[RecordFolder, Sequence[str]], Mapping[str, RunRecord | None]]) -> Iterator[None]:
    """Lets something that has them at hand read the records of folders, while the context lasts.

    Args:
        reader: gives what :meth:`RecordFolder.records` gives.
    """
    token = _reader.set(reader)
    try:
        yield
    finally:
        _reader.reset(token)


def record_source(path: Path) -> RecordSource:
    """The records of a configuration.

    Args:
        path: folder of the configuration, or ``<name>.jsonl/<config>``.
    """
    return PackedRecords(path) if path.parent.suffix == PACKED and path.parent.is_file() else RecordFolder(path)


def record_sources(root: Path) -> list[RecordSource]:
    """All configurations with a record.

    Args:
        root: a packed file or a configuration in one; or a folder at any height: of a run, a configuration, or many
            of them and of packed files. What was renamed aside, and hidden folders, are not looked into.
    """
    if root.suffix == PACKED and root.is_file():
        return [PackedRecords(root / config) for config in _by_config(root)]
    if isinstance(record_source(root), PackedRecords):
        return [record_source(root)]
    if (root / "record.json").is_file():
        return [RecordFolder(root.parent)]
    return [record_source(path) for path in sorted(_walk(root))]


def many_runs(root: Path, many: int) -> bool:
    """Whether there are at least so many runs in folders below one; looks no further than that."""
    runs = 0
    for path in _walk(root):
        runs += 0 if path.parent.suffix == PACKED else len(RecordFolder(path).run_ids())
        if runs >= many:
            return True
    return False


def own_record_sources(root: Path) -> tuple[list[RecordSource], list[Path]]:
    """All configurations with a record, without the packed ones where there are runs beside them.

    ``results`` holds what a user has run and the packed records that come with the repository (``results/measured``);
    who names the latter gets them.

    Args:
        root: folder or file, see :func:`record_sources`.

    Returns:
        The configurations, and the packed files that were left out.
    """
    sources = record_sources(root)
    own: list[RecordSource] = [source for source in sources if isinstance(source, RecordFolder)]
    if not own:
        return sources, []
    return own, list(dict.fromkeys(source.path.parent for source in sources if isinstance(source, PackedRecords)))


def tell_selection(roots: Iterable[Path], left_out: Iterable[Path] = ()) -> None:
    """Notes on standard error: roots that stand for more than themselves, packed files that are left out.

    Args:
        roots: folders and files that a user named; the folder of a run selects all runs of its configuration.
        left_out: second result of :func:`own_record_sources`.
    """
    files = list(left_out)
    # A folder of packed files alone has one name; one that has runs, too, would leave them out again.
    mixed = {folder for folder in {file.parent for file in files} if own_record_sources(folder)[1]}
    packed = list(dict.fromkeys(str(file if file.parent in mixed else file.parent) for file in files))
    if packed:
        print(
            f"note: packed records beside own runs are left out; to have them, name {' '.join(packed)}", file=sys.stderr
        )
    runs = [str(root) for root in roots if (root / "record.json").is_file()]
    if runs:
        print(f"note: all runs of the configuration are taken, not one alone: {' '.join(runs)}", file=sys.stderr)


def read_packed(file: Path) -> _Contents:
    """The records of a packed file by path.

    Raises:
        UserError: a line is no record, or two have one path.
    """
    settings = read_configurations(file)
    contents: _Contents = {}
    for content in _lines(file, ("path", "config", "config_hash")):
        path = content.pop("path")
        if path in contents:
            raise UserError(f"{file}: two records of {path}.")
        values = settings.get((content["config"], content["config_hash"]))
        contents[path] = content if values is None else {**content, "settings": values}
    return contents


def read_configurations(file: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Settings by name and hash of the configuration, from the file next to a packed one; without it none.

    Raises:
        UserError: a line of it is damaged.
    """
    file = file.with_suffix(CONFIGURATIONS)
    if not file.is_file():
        return {}
    return {
        (line["config"], line["config_hash"]): line["values"]
        for line in _lines(file, ("config", "config_hash", "values"))
    }


def write_packed(file: Path, contents: Mapping[str, Mapping[str, Any]]) -> None:
    """Writes records by path to a packed file, their settings to the file next to it.

    Raises:
        UserError: the settings of two runs differ, though name and hash of their configuration do not.
    """
    records: list[dict[str, Any]] = []
    settings: dict[tuple[str, str], Any] = {}
    for path, content in sorted(contents.items()):
        record = {"path": path, **content}
        values = record.pop("settings", None)
        records.append(record)
        if values and settings.setdefault((record["config"], record["config_hash"]), values) != values:
            raise UserError(f"{path}: other settings than those of another run with hash {record['config_hash']}.")
    configurations = [
        {"config": config, "config_hash": config_hash, "values": values}
        for (config, config_hash), values in sorted(settings.items())
    ]
    if configurations:  # first: settings that no record has yet do no harm, records without theirs do
        atomic.write_text(file.with_suffix(CONFIGURATIONS), _jsonl(configurations))
    atomic.write_text(file, _jsonl(records))


def _jsonl(lines: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n" for line in lines)


def _lines(file: Path, keys: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The objects of a JSONL file, each with these keys."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: damaged ({error}).") from None
    for number, line in enumerate(lines, 1):
        try:
            content = json.loads(line)
            lacking = [key for key in keys if key not in content]
        except (TypeError, ValueError) as error:
            raise UserError(f"{file}:{number}: no JSON object ({error}).") from None
        if lacking:
            raise UserError(f"{file}:{number}: lacks {', '.join(lacking)}.")
        yield content


def _packed_beside_runs(file: Path) -> Collection[str]:
    """Configurations of a file that was found, not named; none, with a warning, where it is something else."""
    try:
        return _by_config(file)
    except UserError as error:
        logger.warning("not read, since it holds no records: %s", error)
        return ()


def _by_config(file: Path) -> dict[str, _Contents]:
    return _grouped(file, file.stat().st_mtime_ns)


@functools.lru_cache(maxsize=8)
def _grouped(file: Path, modified: int) -> dict[str, _Contents]:
    """Configuration -> run -> content; read again only when the file has changed."""
    groups: dict[str, _Contents] = {}
    for path, content in read_packed(file).items():
        config, _, run_id = path.rpartition("/")
        groups.setdefault(config, {})[run_id] = content
    return groups


def _walk(root: Path, entered: list[Path] | None = None) -> Iterator[Path]:
    """Configurations below a folder, each once; the folders of a run are not looked into.

    Links lead to what was moved to another disk. Those into what is looked into anyway (``latest``) are left alone.
    """
    entered = [root.resolve()] if entered is None else entered
    inside, has_run = [], False
    with os.scandir(root) if root.is_dir() else nullcontext(()) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name.endswith(PACKED) and not entry.name.endswith(CONFIGURATIONS) and entry.is_file():
                yield from (root / entry.name / config for config in _packed_beside_runs(root / entry.name))
            elif ".old-" not in entry.name and entry.name[0] != "." and entry.is_dir():
                if os.path.isfile(f"{entry.path}/record.json"):
                    has_run = True
                elif not entry.is_symlink() or _leads_elsewhere(Path(entry.path).resolve(), entered):
                    inside.append(entry.name)
    if has_run:
        yield root
    for name in inside:
        yield from _walk(root / name, entered)


def _leads_elsewhere(target: Path, entered: list[Path]) -> bool:
    """Whether a link's target is neither in nor above a folder that was entered; it is entered now."""
    is_new = not any(target.is_relative_to(known) or known.is_relative_to(target) for known in entered)
    entered += [target] if is_new else []
    return is_new


def _is_run(entry: os.DirEntry[str]) -> bool:
    return entry.name != "agg" and ".old-" not in entry.name and entry.name[0] != "." and entry.is_dir()


def _natural(name: str) -> tuple[int, str]:
    return (int(name), name) if name.isdigit() else (1 << 62, name)
