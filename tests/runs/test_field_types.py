from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from graphbench.runs.field_types import check_field_types


@dataclass
class Read:
    share: float
    name: str | None
    sizes: Mapping[str, int]
    runs: tuple[str, ...] = ()


def test_declared_types_are_asked_for() -> None:
    for right in (Read(0.5, None, {}), Read(1, "a", {"b": 2}, ("c",))):
        check_field_types(right)


@pytest.mark.parametrize("wrong", [{"share": "0.5"}, {"share": None}, {"name": 3}, {"sizes": None}, {"runs": ["a"]}])
def test_another_type_is_refused(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(TypeError, match=f"{name} is of type "):
        check_field_types(Read(**{"share": 0.5, "name": None, "sizes": {}, **wrong}))
