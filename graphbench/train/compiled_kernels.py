"""Triton kernels that become ready to run, by name: compiled, or read from the compiler's cache."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def compiled_kernels() -> Iterator[list[str]]:
    """Yields a list that grows by every kernel that is made ready inside; empty where nobody has imported Triton."""
    names: list[str] = []
    place, attribute = _hook()
    if place is None:
        yield names
        return
    before = getattr(place, attribute)

    def note(*args: Any, **kwargs: Any) -> Any:
        names.append(str(getattr(kwargs.get("fn"), "name", "?")))
        return None if before is None else before(*args, **kwargs)

    setattr(place, attribute, note)
    try:
        yield names
    finally:
        setattr(place, attribute, before)


def _hook() -> tuple[Any, str]:
    """Hook of Triton that is called after a compilation: a setting since 3.4, an attribute of kernels before."""
    triton = sys.modules.get("triton")
    if triton is None:
        return None, ""
    knobs = getattr(triton, "knobs", None)
    if knobs is not None:
        return knobs.runtime, "jit_post_compile_hook"
    return triton.runtime.JITFunction, "compiled_hook"
