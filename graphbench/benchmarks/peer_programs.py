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
from torch import nn

from graphbench.benchmarks.models import Prepared
from graphbench.errors import UserError
from graphbench.structures import GraphBatch, as_dense

Peer: TypeAlias = tuple[Callable[[], None], nn.Module]
"""A step or an epoch of a peer's program, and the model that it trains."""


def graphgps_step(path: Path | None, ours: Prepared, *, file: str) -> Peer:
    """A step of GraphGPS's custom training: forward, its loss, backward, clipping, AdamW.

    Args:
        path: path of the checked-out copy.
        ours: gives the batch.
        file: configuration, in the copy.
    """
    assert path is not None
    _importable(path, "graphgps/network/gps_model.py")
    os.chdir(path)
    import graphgps  # noqa: F401 (registers its parts)
    from torch_geometric.graphgym.config import cfg, set_cfg
    from torch_geometric.graphgym.loss import compute_loss
    from torch_geometric.graphgym.register import network_dict

    set_cfg(cfg)
    cfg.merge_from_file(file)
    if cfg.gnn.head == "default":
        cfg.gnn.head = cfg.dataset.task
    data = _graphgps_batch(ours.first[0], cfg)
    model = network_dict["GPSModel"](1, ours.info.out_dim)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.optim.base_lr, weight_decay=cfg.optim.weight_decay)

    def step() -> None:
        model.train()
        optimizer.zero_grad()
        loss, _ = compute_loss(*model(data.clone()))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), cfg.optim.clip_grad_norm_value)
        optimizer.step()

    return step, model


def _graphgps_batch(batch: GraphBatch, cfg: Any) -> Any:
    """Batch that GraphGPS's loader makes of the same graphs, with random walks or Laplacian eigenvectors."""
    from torch_geometric.data import Batch

    features = {"edge_index": batch.edge_index, "y": batch.y, "batch": batch.ragged.graph_id}
    if "RWSE.landing" in batch.pe:
        walks = batch.pe["RWSE.landing"]
        cfg.posenc_RWSE.kernel.times = list(range(1, walks.shape[1] + 1))  # which their loader derives from times_func
        features["pestat_RWSE"] = walks
    else:
        vectors, values = (batch.pe[f"LapPE.{name}"] for name in ("eigvecs", "eigvals"))
        features |= {"EigVecs": vectors, "EigVals": values.view(*vectors.shape, 1)}
    x, e = (each.view(len(each), -1) for each in (as_dense(batch.x), batch.edge_attr))
    return Batch(x=x, edge_attr=e.view(-1) if e.shape[1] == 1 else e, **features)


def sgformer_epoch(path: Path | None, ours: Prepared) -> Peer:
    """An epoch of ``medium/main.py`` of the SGFormer release: a step with two groups of Adam, one evaluation.

    Args:
        path: path of the checked-out copy.
        ours: gives the graph and its training nodes, and the flags of ``gt.TwoBranch``.
    """
    assert path is not None
    _importable(path / "medium", "ours.py")
    from models import GCN
    from ours import SGFormer

    batch, rows = ours.first
    assert batch.y is not None
    flags = ours.config.component_args("gt", "TwoBranch")
    x, y = as_dense(batch.x), batch.y
    classes = int(y.max()) + 1 if y.dim() == 1 else y.shape[1]
    width, depth = ours.config.tree.gt.dim_hidden, flags["local_layers"]
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
