"""The generated types of the tree say what a loaded configuration has."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from types import UnionType
from typing import Any, Literal

import pytest

from graphbench.config import load_config, tree
from graphbench.config.schema import SCHEMA
from tests.paths import ROOT

FILES = ("configs/lrgb/sfi-pascal.yaml", "configs/nodes/sgformer-cora.yaml", "configs/gnnbench/gradformer-zinc.yaml")


def _hints(group: type, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, hint in typing.get_type_hints(group).items():
        is_group = isinstance(hint, type) and hint.__module__ == tree.__name__
        yield from _hints(hint, f"{prefix}{name}.") if is_group else [(prefix + name, hint)]


def _fits(value: Any, hint: Any) -> bool:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return value in arguments
    if origin is list:
        return type(value) is list and all(arguments == (Any,) or type(item) in arguments for item in value)
    if origin in (UnionType, typing.Union):
        return any(_fits(value, each) for each in arguments)
    return value is None if hint is type(None) else type(value) is hint


@pytest.mark.parametrize("file", FILES)
def test_every_value_has_its_type(file: str) -> None:
    config, hints = load_config(ROOT / file), dict(_hints(tree.Tree))
    wrong = {key: (config.value(key), hint) for key, hint in hints.items() if not _fits(config.value(key), hint)}
    assert not wrong


def test_a_type_for_every_key_that_has_an_effect() -> None:
    read = {name for name, key in SCHEMA.items() if not key.inert and not name.startswith("posenc_")}
    assert read == dict(_hints(tree.Tree)).keys()
