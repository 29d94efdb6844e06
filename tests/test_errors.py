"""Messages about names that do not exist."""

from __future__ import annotations

from graphbench.errors import SHOWN, unknown

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
