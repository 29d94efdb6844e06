"""Table 4 of SGFormer (arXiv 2306.10759): training epoch, inference and memory of graph transformers.

Cora is real. Graphs of the sizes of PubMed and amazon2m are generated; on the CPU one as large as a training batch of
amazon2m in place of the whole. ANS-GT reads one sequence per node in a training step here, where its release reads
eight. The paper's GPU is a Tesla T4.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch

from graphbench.benchmarks.case import Case
from graphbench.benchmarks.models import Side, side_by_side
from graphbench.benchmarks.sgformer import write_pubmed

LIKE = ("dataset.format", "GeneratedLike", "val.sampler", "random_node")
ONE_BATCH = ("dataset.GeneratedLike.scale", "0.04", "train.train_parts", "1")

NODEFORMER = (
    *("gt.NodeFormer.bias_order", "1", "gt.NodeFormer.bias_act", "identity", "gt.NodeFormer.edge_loss", "0.00333"),
    *("gt.NodeFormer.nb_features", "50", "gt.NodeFormer.gumbel_samples", "5"),
)
"""Of NodeFormer's command for amazon2m: its noise and edge regularisation are what costs time (SGFormer, 5.4)."""


def run(device: torch.device) -> list[Case]:
    """Cora from dataset.dir or $GRAPHBENCH_DATA, the rest generated."""
    cases = _small("Cora", device, Path("unused"))
    with tempfile.TemporaryDirectory() as folder:
        cases += _small("PubMed-sized", device, Path(folder))
    return cases + _large(device)


def _small(where: str, device: torch.device, folder: Path) -> list[Case]:
    data = () if where == "Cora" else write_pubmed(folder)
    name = "cora" if where == "Cora" else "pubmed"
    models = {"NodeFormer": "nodeformer", "GraphGPS": "gps-performer", "DIFFormer": "difformer", "ANS-GT": "ans-gt"}
    peers = [Side(label, (f"nodes/{model}-{name}.yaml", *data)) for label, model in models.items()]
    if where == "Cora":
        peers.append(Side("GraphTrans", ("nodes/graphtrans-small-cora.yaml",)))
        peers.append(Side("Graphormer", ("nodes/graphormer-small-cora.yaml",)))
    return side_by_side(where, Side("SGFormer", (f"nodes/sgformer-{name}.yaml", *data)), peers, device, epoch=True)


def _large(device: torch.device) -> list[Case]:
    command = ("large/sgformer-amazon2m.yaml", *LIKE, *(() if device.type == "cuda" else ONE_BATCH))
    layers = ("gt.layers", "3", "gt.TwoBranch.attention_norm", "true")
    peers = [
        Side("NodeFormer", (*command, *layers, "gt.layer_type", "None+NodeFormer", *NODEFORMER)),
        Side("DIFFormer", (*command, *layers, "gt.layer_type", "None+DIFFormer")),
    ]
    where = "amazon2m's size" if device.type == "cuda" else "a batch of amazon2m's size"
    return side_by_side(where, Side("SGFormer", command), peers, device, epoch=True)
