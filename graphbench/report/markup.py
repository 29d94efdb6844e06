"""HTML of tables and lists."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
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


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    """A sortable table in a box with a scroll bar; ``rows`` hold whole cells (``<td>``, ``<th>``)."""
    buttons = [f'<button type="button">{escape(column.name)}</button>' for column in columns]
    heads = "".join(
        f'<th scope="col"{" class=n" if column.numeric else ""}>{button}</th>'
        for column, button in zip(columns, buttons, strict=True)
    )
    body = "\n".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return (
        '<div class="box" tabindex="0" role="region" aria-label="table, scrolls sideways"><table class="sortable">'
        f"<thead><tr>{heads}</tr></thead><tbody>\n{body}\n</tbody></table></div>"
    )


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
