"""One value against one key."""

from __future__ import annotations

import math
from typing import Any, Literal

import pytest

from graphbench.config.key import Key
from graphbench.config.values import check, key_of, parse_range
from graphbench.errors import UserError
from graphbench.registry import Parameter


@pytest.mark.parametrize(
    ("key", "received", "value"),
    [
        (Key(1.0, ""), "1e-5", 1e-5),  # YAML 1.1 reads it as text
        (Key(1.0, ""), 3, 3.0),
        (Key(1.0, "", no_limit=True), "-inf", -math.inf),
        (Key(0, "", switched_on=10), True, 10),
        (Key(0, "", switched_on=10), False, 0),
        (Key(0, "", switched_on=10), 3, 3),
        (Key(1, ""), "7", 7),
        (Key("none", ""), None, "none"),
        (Key(None, "", holds=int, optional=True), None, None),
        (Key([], "", item=float), (1, "2e-1"), [1.0, 0.2]),
        (Key("a", "", allowed=("a", "b")), "b", "b"),
    ],
)
def test_conversion(key: Key, received: Any, value: Any) -> None:
    converted = check(key, received, "x.y", "file.yaml:3")
    assert converted == value
    assert type(converted) is type(value)


@pytest.mark.parametrize(
    ("key", "received", "message"),
    [
        (Key(1, ""), 1.0, r"^file\.yaml:3: x\.y must be an integer, received 1\.0 \(float\)\.$"),
        (Key(1, ""), True, "must be an integer, received True"),
        (Key(1.0, "", minimum=0.0), math.inf, "must be a finite number, received inf"),
        (Key(1, ""), {"a": 1}, "is not a section; it takes an integer"),
        (Key(1, ""), None, "received nothing"),
        (Key(1, "", minimum=1), 0, "must be at least 1, received 0"),
        (Key(1, "", maximum=8), 9, "must be at most 8, received 9"),
        (Key(1.0, ""), math.nan, "must be a finite number, received nan"),
        (Key("layer", "", allowed=("layer", "batch")), "bach", "Did you mean 'batch'"),
        (Key([], "", item=int), [1, "two"], r"x\.y\[1\] must be an integer, received 'two'"),
    ],
)
def test_refusal(key: Key, received: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check(key, received, "x.y", "file.yaml:3")


@pytest.mark.parametrize(
    ("annotation", "default", "key"),
    [
        (int | None, None, Key(None, "", holds=int, optional=True)),
        (Literal["sum", "mean"], "sum", Key("sum", "", holds=str, allowed=("sum", "mean"))),
        (tuple[float, ...], (0.5,), Key([0.5], "", holds=list, item=float)),
        (int | str, 1, None),
        (dict[str, int], {}, None),
    ],
)
def test_the_key_of_an_argument(annotation: Any, default: Any, key: Key | None) -> None:
    assert key_of(Parameter("x", annotation, default, from_context=False, argument="x")) == key


def test_ranges() -> None:
    assert parse_range("range(1, 9, 2)", "x", "here") == [1, 3, 5, 7]
    with pytest.raises(UserError, match=r"here: x received 'range\(1,100000000\)', 99,999,999 steps. At most 10,000"):
        parse_range("range(1,100000000)", "x", "here")
    for text in ("range(1, 9, 0)", "range(__import__('os').getpid())", "1:30"):
        with pytest.raises(UserError, match="here: x"):
            parse_range(text, "x", "here")
