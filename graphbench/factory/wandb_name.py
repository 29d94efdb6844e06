"""Names of runs in Weights & Biases, as in GraphGPS, so that scripts written for it can read them.

https://github.com/rampasek/GraphGPS, ``graphgps/utils.py::make_wandb_name``.
"""

from __future__ import annotations

from graphbench.config import Config

_LONG_FORMATS = ("GNNBenchmarkDataset", "TUDataset")


def wandb_name(config: Config, run_id: str) -> str:
    """``<data set>.<model>[.<tag>].r<run>``, e.g. ``ZINC-subset.GPS.GINE+Transformer.r0``.

    The data set is ``dataset.format`` without its prefix, and ``dataset.name``; the model is ``GPS`` with its layers,
    ``gnn`` or ``custom_gnn`` with its layer, and ``model.type`` elsewhere.
    """
    tree = config.tree
    source = tree.dataset.format.removeprefix("OGB").removeprefix("PyG-")
    name = {"none": "", "LocalDegreeProfile": "LDP"}.get(tree.dataset.name, tree.dataset.name)
    if source in _LONG_FORMATS:
        source = ""
    dataset = "-".join(part for part in (source, name) if part)
    model = tree.model.type
    if model in ("gnn", "custom_gnn"):
        model += f".{tree.gnn.layer_type}"
    elif model == "GPSModel":
        model = f"GPS.{tree.gt.layer_type}"
    return ".".join(part for part in (dataset, model, tree.name_tag, f"r{run_id}") if part)


def wandb_tags(config: Config, dataset: str) -> list[str]:
    """Data set, model and ``name_tag`` if there is one, cut to 64 characters, W&B's limit."""
    return [tag[:64] for tag in (dataset, config.tree.model.type, config.tree.name_tag) if tag]
