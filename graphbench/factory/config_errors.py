"""File and line for what a component says about its arguments."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from graphbench.config import Config
from graphbench.errors import ArgumentError, UserError


@contextlib.contextmanager
def config_errors(config: Config, *keys: str, filled: Mapping[str, str] | None = None) -> Iterator[None]:
    """Turns a component's ValueError into the user's message, with the place of the key to blame.

    The key of an :class:`~graphbench.errors.ArgumentError` is that of its parameters: one below ``keys`` that was set,
    else the one that the context filled it from. Without such a key the first of ``keys`` that was set is named.

    Args:
        config: a loaded configuration.
        keys: sections or keys that the component was made from.
        filled: key behind every context parameter.
    """
    try:
        yield
    except ArgumentError as error:
        own = [f"{key}.{parameter}" for parameter in error.parameters for key in keys]
        outside = [filled[parameter] for parameter in error.parameters if filled and parameter in filled]
        key = next(filter(config.is_set, [*own, *outside]), None) or next(iter(outside), None) or _first(config, keys)
        raise UserError(f"{config.where(key)}: {key}: {error}") from error
    except ValueError as error:
        key = _first(config, keys)
        raise UserError(f"{config.where(key)}: {key}: {error}") from error


def _first(config: Config, keys: tuple[str, ...]) -> str:
    return next(filter(config.is_set, keys), keys[0])
