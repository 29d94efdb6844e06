"""What a run is called in Weights & Biases: as by GraphGPS, so that scripts written for it find ours, too.

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
    dataset = "-".join(each for each in ("" if source in _LONG_FORMATS else source, name) if each)
    model = tree.model.type
    if model in ("gnn", "custom_gnn"):
        model += f".{tree.gnn.layer_type}"
    elif model == "GPSModel":
        model = f"GPS.{tree.gt.layer_type}"
    return ".".join(each for each in (dataset, model, tree.name_tag, f"r{run_id}") if each)


def wandb_tags(config: Config, dataset: str) -> list[str]:
    """Data set, model and ``name_tag``, as far as there is one; W&B takes 64 characters each."""
    return [each[:64] for each in (dataset, config.tree.model.type, config.tree.name_tag) if each]
