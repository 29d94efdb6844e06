"""A checked, frozen configuration that knows where each value came from."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from yacs.config import CfgNode

from graphbench.config.components import code_of_components
from graphbench.config.layer_type import LayerSpec, layer_specs
from graphbench.config.settings import settings_hash, settings_of
from graphbench.config.tree import Tree
from graphbench.config.yaml_files import COMMAND_LINE, PYTHON


@dataclass(frozen=True, repr=False)
class Config:
    """A checked configuration.

    Attributes:
        name: stem of the file (of a run's ``config.yaml``: that of the run), with ``name_tag``: that of the run folder.
        tree: every key and every component section in use, defaults included; frozen.
        origin: ``file:line`` (or ``command line``) of every key that was set.
        notices: sentences for the log (keys without effect).
        code: plug-in, or file that one imports -> its source, as it was imported.
        code_files: path -> file of the plug-ins that are not installed, and of what they import: what a run keeps.
        file: path of the file that was loaded, which may build on others (``_base_``).
    """

    name: str
    tree: Tree
    origin: Mapping[str, str]
    notices: tuple[str, ...]
    code: Mapping[str, bytes] = field(default_factory=dict)
    file: str = ""
    code_files: Mapping[str, bytes] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Name, hash and what was set; :meth:`dump` has all values."""
        return f"Config({self.name!r}, hash {self.hash}, {len(self.origin)} keys set)"

    def where(self, key: str) -> str:
        """Place where a key, or the first key below it, was set; the key itself when it has its default."""
        if key in self.origin:
            return self.origin[key]
        below = [place for name, place in self.origin.items() if name.startswith(key + ".")]
        return below[0] if below else f"{key} (default)"

    def value(self, key: str) -> Any:
        """The value of a dotted key."""
        return functools.reduce(lambda node, name: node[name], key.split("."), self._nodes)

    def is_set(self, key: str) -> bool:
        """True when a file or the command line gave the key a value."""
        return key in self.origin

    def is_own(self, key: str) -> bool:
        """True when the file itself or the command line gave the key a value, not a file that it builds on."""
        return key in self.origin and (
            self.origin[key] in (COMMAND_LINE, PYTHON) or self.origin[key].startswith(f"{self.file}:")
        )

    def layer_specs(self, key: str) -> list[LayerSpec]:
        """The names joined by ``+`` in the value of a key."""
        return layer_specs(self.value(key))

    def component_args(self, group: str, name: str) -> dict[str, Any]:
        """The section of a component: ``component_args("gt", "SGFormer")``."""
        section = self._nodes.get(group, {}).get(name, None)
        return dict(section) if isinstance(section, CfgNode) else {}

    @functools.cached_property
    def values(self) -> dict[str, Any]:
        """The value of every key, by its dotted name."""
        return flat(self._nodes)

    @property
    def _nodes(self) -> CfgNode:
        """The tree as what it is at run time."""
        return self.tree

    @property
    def folder(self) -> Path:
        """Folder of its runs."""
        return Path(self.tree.out_dir, self.name)

    @functools.cached_property
    def settings(self) -> dict[str, Any]:
        """Values that tell this configuration from another, see :func:`~graphbench.config.settings.settings_of`."""
        return settings_of(self.values)

    @functools.cached_property
    def hash(self) -> str:
        """Twelve hex digits over the settings."""
        return settings_hash(self.settings)

    @property
    def component_code(self) -> dict[str, bytes]:
        """Component of users that it names and no plug-in of it brings -> its source, as it is now.

        Components of the running script or notebook, and of modules that it imports.
        """
        return code_of_components(self.values, self.code.values())

    @property
    def selects_by_loss(self) -> bool:
        """Whether the best epoch is that of the lowest validation loss, not that of the best metric."""
        return self.tree.metric_best == "loss"

    def of_run(self, seed: int, split_index: int) -> Config:
        """The configuration of one run alone: loaded from a file, it makes this run again, and no other."""
        tree = self._nodes.clone()
        tree.defrost()
        tree.seed, tree.dataset.split_index, tree.run_multiple_splits = seed, split_index, []
        tree.freeze()
        return replace(self, tree=tree)

    def beside(self, name: str) -> Path:
        """A file that a key names: beside the configuration, where runs keep theirs, else from the current folder."""
        neighbor = Path(self.file).parent / name
        return neighbor if neighbor.is_file() else Path(name).expanduser()

    def plain(self) -> dict[str, Any]:
        """The complete configuration as nested dictionaries."""
        return _plain(self._nodes)

    def dump(self) -> str:
        """The complete configuration as YAML; loading it gives the same configuration."""
        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # ten times as fast, where PyYAML has libyaml
        text: str = yaml.dump(self.plain(), Dumper=dumper, sort_keys=False, default_flow_style=None, width=120)
        return text


def nested(values: Mapping[str, Any]) -> CfgNode:
    """A tree from values by dotted key."""
    root = CfgNode()
    sections = {"": root}

    def add(name: str) -> CfgNode:
        above, _, last = name.rpartition(".")
        new = CfgNode()
        (sections[above] if above in sections else add(above))[last] = sections[name] = new
        return new

    for name, value in values.items():
        group, _, last = name.rpartition(".")
        (sections[group] if group in sections else add(group))[last] = value
    return root


def flat(node: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Inverse of :func:`nested`, for trees and for plain dictionaries."""
    values: dict[str, Any] = {}
    for name, value in node.items():
        if isinstance(value, dict):
            values.update(flat(value, f"{prefix}{name}."))
        else:
            values[prefix + name] = value
    return values


def _plain(node: CfgNode) -> dict[str, Any]:
    return {name: _plain(value) if isinstance(value, CfgNode) else value for name, value in node.items()}
