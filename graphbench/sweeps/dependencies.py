"""Entries that build on another of the same sweep: their runs wait for the run that they start from.

An entry builds on another if the last part of its ``pretrained.dir`` is the other's folder. Run i starts from run i.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from graphbench.errors import UserError

if TYPE_CHECKING:
    from graphbench.config import Config
    from graphbench.sweeps.plan import WorkItem
    from graphbench.sweeps.sweep import Entry


def linked(entries: Sequence[Entry], load: Callable[[Entry, tuple[str, ...]], Config]) -> list[Entry]:
    """The entries, each with the name of the one it builds on and ``pretrained.dir`` where the sweep writes that.

    Args:
        entries: of a sweep.
        load: the configuration of an entry with other overrides.

    Raises:
        UserError: entries build on each other in a circle.
    """
    by_name = {entry.config.name: entry for entry in entries}
    result = []
    for entry in entries:
        base = by_name.get(Path(entry.config.tree.pretrained.dir or ".").name)
        if base is None or base is entry:
            result.append(entry)
            continue
        folder = str(Path(base.config.tree.out_dir, base.config.name))
        overrides = entry.overrides
        if folder != entry.config.tree.pretrained.dir:
            overrides = (*overrides, "pretrained.dir", folder)
        config = entry.config if overrides == entry.overrides else load(entry, overrides)
        result.append(dataclasses.replace(entry, overrides=overrides, config=config, base=base.config.name))
    _check_circles(result)
    return result


def _check_circles(entries: Sequence[Entry]) -> None:
    bases = {entry.config.name: entry.base for entry in entries}
    for entry in entries:
        chain = [entry.config.name]
        while (base := bases[chain[-1]]) is not None:
            if base in chain:
                raise UserError(
                    f"{entry.where}: entries build on each other in a circle: {' -> '.join([*chain, base])}."
                )
            chain.append(base)


class WorkQueue:
    """What is still to be trained, in order; a run is handed out once the run that it starts from has finished.

    Args:
        items: what is missing. What they build on is among them, or finished.
    """

    def __init__(self, items: Sequence[WorkItem]) -> None:
        self._waiting = deque(items)
        self._open = {item.key for item in items}
        self._failed: set[tuple[str, str]] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self) -> WorkItem | None:
        """The next that can start; None: there is none, or all wait for runs that go on."""
        for number, item in enumerate(self._waiting):
            if item.needs is None or item.needs not in self._open:
                del self._waiting[number]
                return item
        return None

    def give_back(self, item: WorkItem) -> None:
        """Puts an item first that was taken and is to be started once more."""
        self._waiting.appendleft(item)

    def ended(self, item: WorkItem, *, finished: bool) -> Iterator[WorkItem]:
        """Notes that an item has ended; yields those that can therefore never start, and takes them out."""
        self._open.discard(item.key)
        if finished:
            return
        self._failed.add(item.key)
        for orphan in [other for other in self._waiting if other.needs == item.key]:
            self._waiting.remove(orphan)
            yield orphan
            yield from self.ended(orphan, finished=False)


def stages(items: Sequence[WorkItem]) -> Iterator[list[WorkItem]]:
    """The items in groups, such that every item builds on earlier groups only."""
    left = list(items)
    while left:
        names = {item.key for item in left}
        stage = [item for item in left if item.needs not in names]
        yield stage
        left = [item for item in left if item.needs in names]
