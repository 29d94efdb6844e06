"""Models of checked-out programs of others, built and trained as these programs do it; called by ``peers``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graphbench.errors import UserError
from graphbench.structures import GraphBatch, as_dense

Peer: TypeAlias = tuple[Callable[[], None], nn.Module]
"""A step or an epoch of a peer's program, and the model that it trains."""


def graphgps_step(path: Path, file: Any, batch: GraphBatch, rows: Tensor | None) -> Peer:
    """A step of GraphGPS's custom training: forward, L1 loss, backward, clipping, AdamW.

    Args:
        path: of the checked-out copy.
        file: its configuration.
        batch: of graphs with random walks as encoding.
        rows: None; the graphs are the examples.
    """
    _importable(path, "graphgps/network/gps_model.py")
    os.chdir(path)
    import graphgps  # noqa: F401 (registers its parts)
    from torch_geometric.data import Batch
    from torch_geometric.graphgym.config import cfg, set_cfg
    from torch_geometric.graphgym.register import network_dict

    set_cfg(cfg)
    cfg.merge_from_file(file)
    (walks,) = batch.pe.values()
    cfg.posenc_RWSE.kernel.times = list(range(1, walks.shape[1] + 1))  # which their loader derives from times_func
    model = network_dict["GPSModel"](1, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.optim.base_lr, weight_decay=cfg.optim.weight_decay)
    features = {
        "x": batch.x.view(len(walks), -1),
        "edge_index": batch.edge_index,
        "edge_attr": batch.edge_attr.view(-1),
    }
    data = Batch(batch=batch.ragged.graph_id, pestat_RWSE=walks, y=batch.y, **features)

    def step() -> None:
        model.train()
        optimizer.zero_grad()
        out, true = model(data.clone())
        F.l1_loss(out.view(-1), true.view(-1)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step, model


def sgformer_epoch(path: Path, flags: Any, batch: GraphBatch, rows: Tensor | None) -> Peer:
    """An epoch of ``medium/main.py`` of the SGFormer release: a step with two groups of Adam, one evaluation.

    Args:
        path: of the checked-out copy.
        flags: those of ``gt.TwoBranch``, and ``width``, of the configuration that it is compared with.
        batch: the graph.
        rows: training nodes.
    """
    _importable(path / "medium", "ours.py")
    from models import GCN
    from ours import SGFormer

    assert batch.y is not None
    x, y = as_dense(batch.x), batch.y
    classes = int(y.max()) + 1 if y.dim() == 1 else y.shape[1]
    width, depth = flags["width"], flags["local_layers"]
    norms = {"use_bn": flags["local_norm"]}
    local = GCN(x.shape[1], width, width, num_layers=depth, dropout=flags["local_dropout"], **norms)
    model = SGFormer(
        x.shape[1],
        width,
        classes,
        num_layers=1,
        alpha=flags["alpha"],
        dropout=flags["attention_dropout"],
        use_bn=flags["attention_norm"],
        use_residual=flags["attention_residual"] == "mix",
        graph_weight=flags["graph_weight"],
        gnn=local,
        use_weight=False,
    )
    groups = [{"params": model.params1, "weight_decay": 1e-3}, {"params": model.params2, "weight_decay": 5e-4}]
    optimizer = torch.optim.Adam(groups, lr=0.01)
    data = SimpleNamespace(graph={"node_feat": x, "edge_index": batch.edge_index, "num_nodes": len(x)})
    chosen = torch.arange(len(x)) if rows is None else rows

    def epoch() -> None:
        model.train()
        optimizer.zero_grad()
        out = F.log_softmax(model(data), dim=1)
        F.nll_loss(out[chosen], y.view(-1)[chosen].long()).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            model(data)

    return epoch, model


def _importable(folder: Path, file: str) -> None:
    if not (folder / file).is_file():
        raise UserError(f"there is no {folder / file}: give the root of a checked-out copy of the peer's repository")
    sys.path.insert(0, str(folder))
