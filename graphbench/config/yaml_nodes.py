"""YAML as nodes that know their lines; read by libyaml, many times faster, where PyYAML was built with it."""

from __future__ import annotations

from typing import Any

import yaml

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def compose(text: str) -> yaml.Node | None:
    """The root of a document, None for an empty one.

    Raises:
        yaml.YAMLError: not valid YAML.
    """
    root: yaml.Node | None = yaml.compose(text, Loader=_LOADER)
    return root


def construct(node: yaml.Node) -> Any:
    """The plain value of a node.

    Raises:
        yaml.YAMLError: its tag is unknown, or does not fit.
    """
    return yaml.constructor.SafeConstructor().construct_object(node, deep=True)
