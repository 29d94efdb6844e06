"""Checks a line against ``docs/final-line.schema.json``, with the few words of JSON Schema that the file uses."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from tests.paths import ROOT

SCHEMA = json.loads((ROOT / "docs/final-line.schema.json").read_text())
_TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}


def parse_final_line(text: str) -> dict[str, Any]:
    """The line as a dictionary; fails where it is not what the schema says, or is no strict JSON."""
    line: dict[str, Any] = json.loads(text, parse_constant=_refuse)
    schema = SCHEMA["$defs"]["failure" if "error" in line else "result"]
    _check(line, schema, "line")
    return line


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def _check(value: Any, schema: Mapping[str, Any], place: str) -> None:
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    assert any(isinstance(value, _TYPES[name]) for name in names), f"{place}: {value!r} is no {names}"
    assert not isinstance(value, float) or math.isfinite(value), place
    if isinstance(value, list):
        for index, item in enumerate(value):
            _check(item, schema["items"], f"{place}[{index}]")
    if isinstance(value, dict):
        assert set(schema.get("required", ())) <= set(value), f"{place}: {sorted(value)}"
        further = schema.get("additionalProperties", True)
        for name, item in value.items():
            known = schema.get("properties", {}).get(name, further)
            assert known is not False, f"{place}: unknown '{name}'"
            if isinstance(known, Mapping):
                _check(item, known, f"{place}.{name}")
