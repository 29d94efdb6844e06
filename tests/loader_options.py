"""Options of loaders out of the keywords of a test."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch

from graphbench.data.large.loader import LoaderOptions
from graphbench.data.loading.process import LoaderProcess


def process_of(given: dict[str, Any]) -> LoaderProcess:
    """What they say about the process, which is taken out; seed 0, where they say nothing."""
    values = {"seed": 0} | _taken(LoaderProcess, given)
    return LoaderProcess(**values | {"device": torch.device(values.get("device", "cpu"))})


def options_of(given: dict[str, Any]) -> LoaderOptions:
    """Options of a large graph, which are taken out; see :func:`process_of`."""
    return LoaderOptions(process_of(given), **_taken(LoaderOptions, given))


def _taken(of: type, given: dict[str, Any]) -> dict[str, Any]:
    return {field.name: given.pop(field.name) for field in fields(of) if field.name in given}
