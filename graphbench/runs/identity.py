"""Inputs that a run was made of: its configuration and every other one, each with a digest of its content.

Skipping, resuming, averaging and applying runs all ask the same question: is it made of the same? An input that only
one side knows (records from before this was stored, data that is not read yet) compares as unknown, not as different.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

CONFIGURATION = "configuration"
PLUG_IN = "plug-in "
"""Beginning of the name of a plug-in; behind it the file, as the configuration names it."""

COMPONENT = "component "
"""Beginning of the name of a component that no plug-in brings; behind it the name that it is registered with."""

WEIGHTS = "weights of "
"""Beginning of the name of what a run started from; behind it the folder of that run."""


@dataclass(frozen=True)
class RunIdentity:
    """Inputs that two runs must have in common to be the same run, or to be averaged.

    Attributes:
        config_hash: hash of the settings of the configuration.
        inputs: digest by name: ``data`` (fingerprint of the graphs), ``split 3``, ``split of seed 3`` or ``split 2 of
            seed 3`` (its examples), ``plug-in FILE``, ``component NAME``, ``function FILE``, ``weights of RUN``; and
            ``seed``, where runs differ in splits only.
            Runs that differ by design (in their seed, in their split) have inputs of other names.
    """

    config_hash: str
    inputs: Mapping[str, str] = field(default_factory=dict)

    def differences(self, other: RunIdentity) -> dict[str, tuple[str, str]]:
        """Name -> digest here and there, of all that both know and that is not the same."""
        here, there = ({CONFIGURATION: each.config_hash, **each.inputs} for each in (self, other))
        return {name: (here[name], there[name]) for name in here if name in there and here[name] != there[name]}

    def differences_of_one_run(self, other: RunIdentity) -> dict[str, tuple[str, str]]:
        """:meth:`differences` of one run then and now: it started from one other run, in whichever folder that lies."""
        ours, theirs = ([name for name in each.inputs if name.startswith(WEIGHTS)] for each in (self, other))
        if len(ours) == len(theirs) == 1:
            other = RunIdentity(other.config_hash, {**other.inputs, ours[0]: other.inputs[theirs[0]]})
        return self.differences(other)

    def joined(self, other: RunIdentity) -> RunIdentity:
        """Identity with the inputs known of either."""
        return RunIdentity(self.config_hash, {**other.inputs, **self.inputs})


def code_inputs(plug_ins: Mapping[str, bytes], components: Mapping[str, bytes]) -> dict[str, str]:
    """The users' code among the inputs of a run.

    Args:
        plug_ins: sources of plug-ins, and of what they import, by file.
        components: sources of components that no plug-in brings, by name.
    """
    named = ((PLUG_IN, plug_ins), (COMPONENT, components))
    return {kind + name: hashlib.sha256(source).hexdigest() for kind, code in named for name, source in code.items()}


def described(differences: Mapping[str, tuple[str, str]]) -> str:
    """``data (dd165e1c there, a5179b09 here) and split 0 (...)``, from the differences of a stored run."""
    return " and ".join(f"{name} ({there[:12]} there, {here[:12]} here)" for name, (there, here) in differences.items())
