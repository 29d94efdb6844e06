"""Messages about names that do not exist."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from graphbench.errors import (
    SHOWN,
    ArgumentError,
    check_at_least,
    check_multiple,
    check_one_of,
    check_within,
    unknown,
)

NAMES = [f"{kind}{number}" for kind in ("layer", "head") for number in range(40)]


def test_of_many_names_that_are_listed_elsewhere_the_nearest_are_shown() -> None:
    message = str(unknown("name", "Layer_7", NAMES, "a.yaml:1", listed="graphbench list"))
    start, _, shown = message.removesuffix("; all: graphbench list.").partition(" Nearest of 80: ")
    assert start == "a.yaml:1: unknown name 'Layer_7'. Did you mean 'layer7'?"
    assert shown.startswith("layer7, layer")
    assert len(shown.split(", ")) == SHOWN


def test_few_names_and_names_that_are_listed_nowhere_else_are_shown_in_their_order() -> None:
    few = str(unknown("name", "b", ["c", "B", "a"], listed="graphbench list"))
    assert few == "unknown name 'b'. Did you mean 'B'? Allowed: a, B, c."
    assert str(unknown("name", "x", NAMES)).endswith(", ... (80 in all).")
    assert str(unknown("name", "x", [])) == "unknown name 'x'. Allowed: nothing."


@pytest.mark.parametrize(
    ("check", "parameters", "message"),
    [
        (lambda: check_at_least(1, a=1, b=math.nan), ("b",), "b must be at least 1, received nan"),
        (lambda: check_within(0, 1, a=0, b=1, c=1.5), ("c",), "c must lie in [0, 1], received 1.5"),
        (lambda: check_within(0, 1, a=math.nan), ("a",), "a must lie in [0, 1], received nan"),
        (lambda: check_one_of((1, 2), a=1, b=3), ("b",), "b must be one of 1, 2; received 3"),
        (
            lambda: check_one_of(("mean", "sum"), a="Mean"),
            ("a",),
            "a must be one of mean, sum; received 'Mean', did you mean 'mean'?",
        ),
        (
            lambda: check_multiple(dim=6, heads=4),
            ("dim", "heads"),
            "dim must be a multiple of heads, received dim=6, heads=4",
        ),
    ],
)
def test_the_argument_that_does_not_fit_is_named(
    check: Callable[[], None], parameters: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ArgumentError) as refused:
        check()
    assert (refused.value.parameters, str(refused.value)) == (parameters, message)
