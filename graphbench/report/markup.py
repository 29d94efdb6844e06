"""Pieces of HTML that several sections share."""

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
    """A table in a box that scrolls by itself; ``rows`` hold whole cells (``<td>``, ``<th>``)."""
    heads = "".join(
        f'<th scope="col"{" class=n" if each.numeric else ""}><button type="button">{escape(each.name)}</button></th>'
        for each in columns
    )
    body = "\n".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return (
        '<div class="box" tabindex="0" role="region" aria-label="table, scrolls sideways"><table class="sortable">'
        f"<thead><tr>{heads}</tr></thead><tbody>\n{body}\n</tbody></table></div>"
    )


def number(value: float | None, shown: str) -> str:
    """A cell sorted by ``value``; ``shown`` is HTML. None and what is no number go to the end."""
    key = "" if value is None or not math.isfinite(value) else f' data-v="{value!r}"'
    return f'<td class="n"{key}>{shown}</td>'


def text(shown: str) -> str:
    """A cell of words."""
    return f"<td>{escape(shown)}</td>"


def anchor(name: str) -> str:
    """A name as fragment of an address."""
    return "at-" + re.sub(r"[^A-Za-z0-9]", lambda found: f"_{ord(found[0]):x}", name)


def plain_list(items: Sequence[str]) -> str:
    """Plain sentences as a list."""
    return "<ul>" + "".join(f"<li>{escape(each)}</li>" for each in items) + "</ul>" if items else ""
