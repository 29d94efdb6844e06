"""Figure 7 of Gradformer (arXiv 2404.15729): training step, inference and memory on ZINC and CLUSTER.

Gradformer beside SAN, GraphGPS and Graphormer, each with its own configuration, on batches of 32 graphs: ZINC as it is,
CLUSTER's graphs drawn from the same model. The paper prints no numbers.
"""

from __future__ import annotations

import torch

from graphbench.benchmarks.case import Case
from graphbench.benchmarks.models import Side, side_by_side

BATCH = ("train.batch_size", "32")
DRAWN = ("dataset.format", "SBM", "dataset.SBM.train_graphs", "64", "dataset.SBM.val_graphs", "8")
MODELS = {"SAN": "san", "GraphGPS": "gps", "Graphormer": "graphormer"}


def run(device: torch.device) -> list[Case]:
    """ZINC from dataset.dir or $GRAPHBENCH_DATA."""
    cases = []
    for where, name, data in (
        ("ZINC", "zinc", BATCH),
        ("CLUSTER", "cluster", (*BATCH, *DRAWN, "dataset.SBM.test_graphs", "8")),
    ):
        peers = [Side(label, (f"gnnbench/{model}-{name}.yaml", *data)) for label, model in MODELS.items()]
        ours = Side("Gradformer", (f"gnnbench/gradformer-{name}.yaml", *data))
        cases += side_by_side(where, ours, peers, device)
    return cases
