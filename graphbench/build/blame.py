"""A component says what is wrong with a value; this adds where the value was set."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from graphbench.config import Config
from graphbench.errors import UserError


@contextlib.contextmanager
def blame(config: Config, *keys: str) -> Iterator[None]:
    """Turns a component's ValueError into the user's message, with the place of the first of ``keys`` that was set."""
    try:
        yield
    except ValueError as error:
        key = next((each for each in keys if config.is_set(each)), keys[0])
        raise UserError(f"{config.where(key)}: {key}: {error}") from error
