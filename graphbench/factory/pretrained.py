"""From the keys ``pretrained.*`` to a model that starts from a finished run."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from graphbench.config import Config, load_config
from graphbench.config.config import nested
from graphbench.config.run_keys import INFERENCE_MODES
from graphbench.errors import UserError
from graphbench.train.pretrained import (
    check_configuration,
    components_of_programs,
    find_run,
    freeze_body,
    load_parameters,
    read_best,
    warnings,
)

_ARCHITECTURE_GROUPS = (
    "gt.",
    "gnn.",
    "posenc_",
    "graphormer.",
    "prep.",
    "dataset.node_encoder",
    "dataset.edge_encoder",
)
_ARCHITECTURE_KEYS = ("model.type", "compat", "ogb_atom_vocabulary")
_HEAD_KEYS = ("gnn.head", "gnn.layers_post_mp")


def run_configuration(run: Path) -> Config:
    """The configuration in the folder of a run, which is the one that its record was made with.

    Raises:
        UserError: it was edited, damaged or swapped, or its plug-ins were.
    """
    try:
        config = load_config(run / "config.yaml")
    except UserError as error:
        names = components_of_programs(run)
        if not names:
            raise
        raise UserError(
            f"{error} The run has components that no plug-in of its configuration registered: "
            f"{', '.join(names)}. Install the package, or run the notebook or script, that registers them, or put them "
            "into a file that 'plugins' names."
        ) from None
    check_configuration(run, config.settings, config.code, config.component_code)
    return config


def adopt_pretrained(config: Config, run_id: int, *, starts: bool = True, base: Config | None = None) -> Config:
    """The configuration with the architecture of the run that ``pretrained.dir`` names.

    Encoders and layers take the stored run's values wherever this configuration does not set a key itself; where it
    does, and differently, a notice is logged. The head is that of this configuration, except for inference. With
    ``pretrained.adopt_architecture`` false the configuration stays as it is, and the run only has to exist.

    Args:
        config: a loaded configuration.
        run_id: number of the first run.
        starts: whether a run follows; if none does, only an architecture that is to be adopted has to exist.
        base: configuration of the named run, where that is still to be trained; None: read from the run.

    Raises:
        UserError: ``train.mode`` needs a trained model and none is named, or there is no such run.
    """
    tree = config.tree
    mode = tree.train.mode
    if not tree.pretrained.dir:
        if mode in INFERENCE_MODES:
            raise UserError(
                f"{config.where('train.mode')}: train.mode {mode} applies a trained model; set pretrained.dir to its "
                "run directory."
            )
        return config
    if not (tree.pretrained.adopt_architecture or starts):
        return config
    run = None if base is not None else find_run(tree.pretrained.dir, run_id)
    if not tree.pretrained.adopt_architecture:
        return config
    source = base if run is None else run_configuration(run)
    assert source is not None
    adopted, notices = {}, []
    for key, value in source.values.items():
        if not (key.startswith(_ARCHITECTURE_GROUPS) or key in _ARCHITECTURE_KEYS):
            continue
        if key in _HEAD_KEYS and mode not in INFERENCE_MODES:
            continue
        if not config.is_set(key):
            adopted[key] = value
        elif config.value(key) != value:
            notices.append(f"{config.where(key)}: {key} is {config.value(key)!r}, in the pretrained run {value!r}.")
    merged = nested({**config.values, **adopted})
    merged.freeze()
    return dataclasses.replace(config, tree=merged, notices=(*config.notices, *notices))


@dataclass(frozen=True)
class Pretrained:
    """Source of a model's parameters.

    Attributes:
        epoch: best epoch of the stored run.
        notes: sentences for the log of the new run.
    """

    epoch: int
    notes: tuple[str, ...]


def load_pretrained(config: Config, model: nn.Module, run_id: int) -> Pretrained | None:
    """Loads the parameters of the best epoch of the named run, and freezes all but the head (``freeze_main``).

    Returns:
        None where no run is named.

    Raises:
        UserError: no such run, or parameters that do not fit.
    """
    keys = config.tree.pretrained
    if not keys.dir:
        return None
    inference = config.tree.train.mode in INFERENCE_MODES
    run = find_run(keys.dir, run_id)
    best = read_best(run)
    reset_head = keys.reset_prediction_head and not inference  # what is applied keeps its head, whatever the key says
    notes = load_parameters(model, best["model"], reset_head=reset_head, complete=inference, only=keys.parameters)
    if inference:
        notes.append(f"pretrained: train.mode {config.tree.train.mode} predicts with the trained head")
    if keys.freeze_main:
        freeze_body(model)
    return Pretrained(best["epoch"], (f"pretrained: {run}, epoch {best['epoch']}", *warnings(run), *notes))
