"""HTML of tables and lists."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Column:
    """A column that can be sorted by.

    Attributes:
        name: heading.
        numeric: aligned to the right and sorted by number.
    """

    name: str
    numeric: bool = False


def table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], name: str, attributes: Sequence[str] | None = None
) -> str:
    """A sortable table in a box with a scroll bar.

    Args:
        columns: headings.
        rows: rows of whole cells (``<td>``, ``<th>``).
        name: description of the content, for screen readers and as caption of a copy.
        attributes: attributes of every row, e.g. from :func:`findable`.
    """
    buttons = [f'<button type="button">{escape(column.name)}</button>' for column in columns]
    heads = "".join(
        f'<th scope="col"{" class=n" if column.numeric else ""}>{button}</th>'
        for column, button in zip(columns, buttons, strict=True)
    )
    body = "\n".join(
        f"<tr{attribute}>{''.join(cells)}</tr>"
        for attribute, cells in zip(attributes or [""] * len(rows), rows, strict=True)
    )
    label = escape(name)
    return (
        f'<div class="box" tabindex="0" role="region" aria-label="{label}, a table that scrolls sideways">'
        f'<table class="sortable" data-name="{label}"><thead><tr>{heads}</tr></thead><tbody>\n{body}\n</tbody>'
        "</table></div>"
    )


def findable(words: Iterable[str], datasets: Iterable[str], groups: Iterable[str], statuses: Iterable[str] = ()) -> str:
    """Attributes of what the filters of the page show or hide: words, and what the lists to choose from hold."""
    text = escape(" ".join(words).casefold())
    lists = {"set": datasets, "group": groups, "status": statuses}
    chosen = "".join(f' data-{name}="{escape("|".join(values))}"' for name, values in lists.items())
    return f' data-find="{text}"{chosen}'


def number(value: float | None, shown: str) -> str:
    """A cell sorted by ``value``; ``shown`` is HTML. None and NaN go to the end."""
    key = "" if value is None or not math.isfinite(value) else f' data-v="{value!r}"'
    return f'<td class="n"{key}>{shown}</td>'


def text(shown: str) -> str:
    """A cell of words."""
    return f"<td>{escape(shown)}</td>"


def anchor(name: str) -> str:
    """A name as fragment of an address."""
    return "at-" + re.sub(r"[^A-Za-z0-9]", lambda match: f"_{ord(match[0]):x}", name)


def plain_list(items: Sequence[str]) -> str:
    """A list of plain text."""
    return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>" if items else ""
