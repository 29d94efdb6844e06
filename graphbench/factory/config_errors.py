"""Messages of components with file, line and key of the configuration."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping

from graphbench import plug_ins
from graphbench.config import Config
from graphbench.errors import ArgumentError, NeedsData, UnknownFact, UserError


@contextlib.contextmanager
def config_errors(config: Config, *keys: str, filled: Mapping[str, str] | None = None) -> Iterator[None]:
    """Turns a component's ValueError into a :class:`UserError` that names file, line and key.

    The key of an :class:`~graphbench.errors.ArgumentError` is that of its parameters: one below ``keys`` that was set,
    else the one that filled it through the context. Without such a key it is the first of ``keys`` that was set.

    Args:
        config: a loaded configuration.
        keys: sections or keys that the component was made from.
        filled: key behind every context parameter.
    """
    try:
        yield
    except ArgumentError as error:
        in_section = [f"{key}.{parameter}" for parameter in error.parameters for key in keys]
        from_context = [filled[parameter] for parameter in error.parameters if filled and parameter in filled]
        key = _first_set(config, [*in_section, *from_context])
        if key is None:
            key = from_context[0] if from_context else _first_set(config, keys) or keys[0]
        refusal = NeedsData if isinstance(error, UnknownFact) else UserError
        raise refusal(f"{_place(config, key)}: {error}") from error
    except ValueError as error:
        key = _first_set(config, keys) or keys[0]
        raised = plug_ins.raising_place(error)
        raise UserError(f"{_place(config, key)}: {error}{'' if raised is None else f' ({raised})'}") from error


def _place(config: Config, key: str) -> str:
    """``file:line: key``, or that the key has its default."""
    where = config.where(key)
    return where if where.startswith(key) else f"{where}: {key}"


def _first_set(config: Config, keys: Iterable[str]) -> str | None:
    """The first key that the user set."""
    return next((key for key in keys if config.is_set(key)), None)
