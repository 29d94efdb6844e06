"""Triton's interpreter, without the third of its time in which it looks for what it has replaced already."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
import torch
from triton import language
from triton.runtime import interpreter


@pytest.fixture(scope="session", autouse=True)
def language_patched_once() -> Iterator[None]:
    """Skips modules of the language whose functions are the interpreter's already.

    Every call of a helper asks for that anew, and all members are looked through to find that none is left. Functions
    of a module are replaced, and put back, all together: one of them tells.
    """
    plain = interpreter._patch_builtin
    some_function: dict[Any, str | None] = {}

    def is_whole(module: Any) -> bool:
        if module not in some_function:
            members = inspect.getmembers(module, language.core.is_builtin)
            some_function[module] = members[0][0] if members else None
        name = some_function[module]
        return name is not None and language.core.is_builtin(getattr(module, name))

    def patch_builtin(module: Any, *more: Any) -> None:
        if is_whole(module):
            plain(module, *more)

    if torch.cuda.is_available():
        yield
        return
    with mock.patch.object(interpreter, "_patch_builtin", patch_builtin):
        yield
