"""Entries that build on another of the same sweep: their runs wait for the run that they start from.

An entry builds on another if its ``pretrained.dir`` is the other's run folder, or the folder of one run in it. Of
several runs, run i starts from run i; a single one serves all.
"""

from __future__ import annotations

import dataclasses
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from graphbench.errors import UserError

if TYPE_CHECKING:
    from graphbench.config import Config
    from graphbench.sweeps.sweep import Entry
    from graphbench.sweeps.work_item import WorkItem


def linked(
    entries: Sequence[Entry], load: Callable[[Entry, tuple[str, ...]], Config], command_line: Sequence[str] = ()
) -> list[Entry]:
    """The entries, each with the folder of the one it builds on and ``pretrained.dir`` where the sweep writes that.

    Args:
        entries: entries of a sweep.
        load: the configuration of an entry with other overrides.
        command_line: ``[key, value, ...]`` at the end of every entry's overrides. Files name a folder as it is without
            the ``out_dir`` and ``name_tag`` among them.

    Raises:
        UserError: entries build on each other in a circle.
    """
    if not any(entry.config.tree.pretrained.dir for entry in entries):
        return list(entries)
    bases = {os.path.abspath(entry.folder): entry for entry in entries}
    bases |= {os.path.normpath(_declared(entry, load, command_line)): entry for entry in entries}
    result = []
    for entry in entries:
        written = os.path.normpath(entry.config.tree.pretrained.dir or "")
        base, run = _base_and_run(written, bases) or _base_and_run(os.path.abspath(written), bases) or (None, "")
        if base is None or base is entry or not entry.config.tree.pretrained.dir:
            result.append(entry)
            continue
        folder = str(base.folder / run)
        overrides = entry.overrides
        if folder != entry.config.tree.pretrained.dir:
            overrides = (*overrides, "pretrained.dir", folder)
        config = entry.config if overrides == entry.overrides else load(entry, overrides)
        result.append(dataclasses.replace(entry, overrides=overrides, config=config, base=base.folder))
    _check_circles(result)
    return result


def _declared(entry: Entry, load: Callable[[Entry, tuple[str, ...]], Config], command_line: Sequence[str]) -> Path:
    """The run folder of an entry as its file and the sweep have it."""
    if not {"out_dir", "name_tag"} & set(command_line[::2]):
        return entry.folder
    pairs = zip(command_line[::2], command_line[1::2], strict=True)
    others = [text for pair in pairs if pair[0] not in ("out_dir", "name_tag") for text in pair]
    return load(entry, (*entry.overrides[: len(entry.overrides) - len(command_line)], *others)).folder


def _base_and_run(folder: str, bases: Mapping[str, Entry]) -> tuple[Entry, str] | None:
    """The entry whose run folder this is, or that of one run in it."""
    if folder in bases:
        return bases[folder], ""
    parent, run = os.path.split(folder)
    return (bases[parent], run) if parent in bases and run.isdigit() else None


def _check_circles(entries: Sequence[Entry]) -> None:
    bases = {entry.folder: entry.base for entry in entries}
    for entry in entries:
        chain = [entry.folder]
        while (base := bases[chain[-1]]) is not None:
            if base in chain:
                names = " -> ".join(folder.name for folder in [*chain, base])
                raise UserError(f"{entry.where}: entries build on each other in a circle: {names}.")
            chain.append(base)


def bases_first(entries: Sequence[Entry]) -> list[Entry]:
    """The entries in an order in which each comes after the one it builds on."""
    by_folder = {entry.folder: entry for entry in entries}
    ordered: dict[Path, Entry] = {}
    for entry in entries:
        chain = [entry]
        while (base := chain[-1].base) in by_folder:
            chain.append(by_folder[base])
        ordered |= {member.folder: member for member in reversed(chain) if member.folder not in ordered}
    return list(ordered.values())


def base_run(entry: Entry, run_id: int, of_base: Sequence[int]) -> Path:
    """Folder of the run of its base that a run of an entry starts from.

    That is what :func:`graphbench.train.pretrained.find_run` finds once all of them are there.

    Args:
        entry: builds on another.
        run_id: folder name of its run.
        of_base: ids of the runs that the sweep trains of the base.
    """
    assert entry.base is not None
    source = Path(entry.config.tree.pretrained.dir)
    if source != entry.base:
        return source
    return source / str(of_base[0] if len(of_base) == 1 else run_id)


class WorkQueue:
    """Runs still to be trained, in order; a run is handed out once the run that it starts from has finished.

    What another process trains is passed over until that has ended: then it is finished, or goes on if that was killed.

    Args:
        items: missing runs. What they build on is among them, or finished.
    """

    def __init__(self, items: Sequence[WorkItem]) -> None:
        self._waiting = deque(items)
        self._open = {key for item in items for key in item.keys}

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self) -> WorkItem | None:
        """The next that can start; None: there is none, or all wait for runs that go on, here or in another process."""
        for number, item in enumerate(self._waiting):
            if item.needs.isdisjoint(self._open) and not item.in_use:
                del self._waiting[number]
                return item
        return None

    def give_back(self, item: WorkItem) -> None:
        """Puts an item first that was taken and is to be started once more."""
        self._waiting.appendleft(item)

    def put_off(self, item: WorkItem) -> None:
        """Puts an item last that was taken, since another process works on it."""
        self._waiting.append(item)

    def ended(self, item: WorkItem, *, finished: bool) -> Iterator[WorkItem]:
        """Notes that an item has ended; yields those that can therefore never start, and takes them out."""
        self._open.difference_update(item.keys)
        if finished:
            return
        for orphan in [other for other in self._waiting if not other.needs.isdisjoint(item.keys)]:
            self._waiting.remove(orphan)
            yield orphan
            yield from self.ended(orphan, finished=False)


def stages(items: Sequence[WorkItem]) -> Iterator[list[WorkItem]]:
    """The items in groups, such that every item builds on earlier groups only."""
    left = list(items)
    while left:
        names = {key for item in left for key in item.keys}
        stage = [item for item in left if item.needs.isdisjoint(names)]
        yield stage
        left = [item for item in left if not item.needs.isdisjoint(names)]
