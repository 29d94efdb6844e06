"""JSON that every reader accepts: NaN and infinity become null."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def dumps(value: Any, indent: int | None = None) -> str:
    """``value`` as JSON text; tuples become lists, keys become strings, non-finite floats become null."""
    try:
        return json.dumps(value, indent=indent, allow_nan=False)
    except ValueError:  # a NaN somewhere: rare, so that only then every value is looked at
        return json.dumps(_plain(value), indent=indent, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(element) for element in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
