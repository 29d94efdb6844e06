"""The third source of numbers: measurements other than training runs, as JSON with hardware and commit.

A file below ``results/measured`` is ``{"command", "date", "hardware", "software", "commit", "measured"}``;
``measured`` is the output of the command (``study/record_measurement.py`` writes such files).
"""

from __future__ import annotations

import fnmatch
import functools
import json
from pathlib import Path
from typing import Any

from graphbench.errors import UserError
from study.judging.quantities import Quantity, Source

PROVENANCE = ("command", "date", "hardware", "software", "commit")


def recorded(folder: Path) -> Source:
    """Numbers of the files in a folder: ``FILE: STEP / STEP ...``, ``FILE`` without ``.json``.

    A step is a key of a mapping, or ``key=pattern; key=pattern`` for the one entry of a list that fits; ``*`` in a
    pattern stands for anything. Truth is 1 or 0. None where the file, or what is asked for in it, is not there.

    Args:
        folder: ``results/measured``.
    """

    def find(reference: str) -> Quantity | None:
        name, _, path = reference.partition(":")
        file = folder / f"{name.strip()}.json"
        if not file.is_file():
            return None
        content = read_measurement(file)
        value = content["measured"]
        for step in path.split(" / "):
            value = _step(value, step.strip(), reference)
            if value is None:
                return None
        if not isinstance(value, (int, float)):
            raise UserError(f"'{reference}' is no number in {file}.")
        shown = f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 1000 else f"{value:.4g}"
        made = f"{content['hardware']}, {content['date']}, commit {content['commit']}"
        text = " ".join(reference.split())
        return Quantity(f"`{text}`", float(value), None, None, False, 0.01 * abs(value), f"{shown} ({made})")

    return find


@functools.cache
def read_measurement(file: Path) -> dict[str, Any]:
    """Reads a recorded measurement.

    Raises:
        UserError: it is none, or lacks its provenance.
    """
    try:
        content = dict(json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise UserError(f"{file}: no recorded measurement ({error}).") from None
    lacking = [key for key in (*PROVENANCE, "measured") if not content.get(key)]
    if lacking:
        raise UserError(
            f"{file}: a recorded measurement says {', '.join(lacking)}; study/record_measurement.py adds it."
        )
    return content


def _step(value: Any, step: str, reference: str) -> Any:
    if isinstance(value, dict):
        return value.get(step)
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise UserError(f"'{reference}': nothing lies behind a number, received the step '{step}'.")
    patterns = [part.partition("=") for part in step.split(";")]
    if not all(equals for _, equals, _ in patterns):
        raise UserError(f"'{reference}': of a list a step is key=pattern, received '{step}'.")
    matches = [
        entry
        for entry in value
        if all(fnmatch.fnmatchcase(str(entry.get(key.strip())), pattern.strip()) for key, _, pattern in patterns)
    ]
    if len(matches) > 1:
        raise UserError(f"'{reference}': {len(matches)} entries fit '{step}', not one.")
    return matches[0] if matches else None
