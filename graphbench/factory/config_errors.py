"""A component says what is wrong with a value; this adds where the value was set."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from graphbench.config import Config
from graphbench.errors import UserError


@contextlib.contextmanager
def config_errors(config: Config, *keys: str) -> Iterator[None]:
    """Turns a component's ValueError into the user's message, with the place of what is wrong.

    Args:
        config: a loaded configuration.
        keys: what the component was made from. An argument below one of them that was set and that the message names
            comes first, else the first key that was set.
    """
    try:
        yield
    except ValueError as error:
        words = set(re.findall(r"\w+", str(error)))
        below = (name for each in keys for name in config.origin if name.startswith(f"{each}."))
        named = (name for name in below if name.rpartition(".")[2] in words)
        key = next(named, None) or next(filter(config.is_set, keys), keys[0])
        raise UserError(f"{config.where(key)}: {key}: {error}") from error
