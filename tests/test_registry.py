"""Names, rooms, plug-ins and construction from signatures."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphbench import registry
from graphbench.errors import UserError


def test_unknown_name_lists_and_suggests() -> None:
    message = r"f.yaml:3: unknown name in layers/local 'GatdGCN'. Did you mean 'GatedGCN'\?.*GINE"
    with pytest.raises(UserError, match=message):
        registry.lookup("layers/local", "GatdGCN", "f.yaml:3")


def test_a_name_cannot_be_taken_twice() -> None:
    registry.scan("layers/local")
    with pytest.raises(UserError, match="'GCN' is already taken in layers/local"):
        registry.register("GCN", room="layers/local")(type("Other", (), {}))


def test_outside_the_package_the_room_must_be_named() -> None:
    with pytest.raises(UserError, match=r"@register\('X'\) needs room=..., one of: .*layers/attention"):
        registry.register("X")(type("X", (), {}))


def test_construct_prefers_own_then_context_then_default() -> None:
    def component(a: int, b: int = 2, *, c: int = 3) -> tuple[int, int, int]:
        return a, b, c

    assert registry.construct(component, {}, {"a": 1, "unused": 0}) == (1, 2, 3)
    assert registry.construct(component, {"a": 5, "c": 7}, {"a": 1, "b": 9}) == (5, 9, 7)
    with pytest.raises(TypeError, match="needs 'a'"):
        registry.construct(component, {}, {})


def test_broken_plugin_is_one_message(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("import not_a_module_anywhere\n")
    with pytest.raises(UserError, match=r"f.yaml:1: plug-in '.*broken.py' cannot be loaded: ModuleNotFoundError"):
        registry.load_plugin(str(path), "f.yaml:1")
