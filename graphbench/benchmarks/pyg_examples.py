"""Trainings as examples of PyTorch Geometric write them, at the sizes of a configuration of ours; called by ``peers``.

https://github.com/pyg-team/pytorch_geometric, ``examples/graph_gps.py`` (GPS on ZINC) and the model ``SGFormer``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GINEConv, GPSConv, global_add_pool

from graphbench.benchmarks.models import Prepared
from graphbench.benchmarks.peer_programs import Peer
from graphbench.benchmarks.sgformer import pyg_model
from graphbench.factory.task import build_task
from graphbench.structures import as_dense


class GPSExample(nn.Module):
    """Embeddings beside normalised random walks, GPS layers around GINE, sums over graphs and three linear maps.

    Args:
        ours: model whose width, depth, heads, dropout and categories it has.
    """

    def __init__(self, ours: Prepared) -> None:
        super().__init__()
        tree, dim = ours.config.tree, ours.config.tree.gt.dim_hidden
        (walks,) = ours.first[0].pe.values()
        dim_pe = ours.config.value("posenc_RWSE.dim_pe")
        self.node_emb = nn.Embedding(tree.dataset.node_encoder_num_types, dim - dim_pe)
        self.pe_norm, self.pe_lin = nn.BatchNorm1d(walks.shape[1]), nn.Linear(walks.shape[1], dim_pe)
        self.edge_emb = nn.Embedding(tree.dataset.edge_encoder_num_types, dim)
        self.convs = nn.ModuleList(
            GPSConv(
                dim,
                GINEConv(nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))),
                heads=tree.gt.n_heads,
                dropout=tree.gt.dropout,
                attn_kwargs={"dropout": tree.gt.attn_dropout},
            )
            for _ in range(tree.gt.layers)
        )
        widths = (dim, dim // 2, dim // 4)
        self.mlp = nn.Sequential(
            nn.Linear(widths[0], widths[1]),
            nn.ReLU(),
            nn.Linear(widths[1], widths[2]),
            nn.ReLU(),
            nn.Linear(widths[2], ours.info.out_dim),
        )

    def forward(self, x: Tensor, pe: Tensor, edge_index: Tensor, edge_attr: Tensor, graph: Tensor) -> Tensor:
        """(graphs, targets) predictions."""
        h: Any = torch.cat((self.node_emb(x), self.pe_lin(self.pe_norm(pe))), 1)
        e = self.edge_emb(edge_attr)
        for conv in self.convs:
            h = conv(h, edge_index, graph, edge_attr=e)
        return self.mlp(global_add_pool(h, graph))


def gps_step(path: Path | None, ours: Prepared, *, compiled: bool = False) -> Peer:
    """A step of GPS on molecules, with the loss, the clipping and the optimiser of ours.

    Args:
        path: none; PyG is installed.
        ours: gives sizes and the batch.
        compiled: by ``torch.compile`` for batches of all sizes.
    """
    del path
    batch, _ = ours.first
    assert batch.y is not None
    y, optim, task = batch.y, ours.config.tree.optim, build_task(ours.config, ours.info)
    model = GPSExample(ours).train()
    forward: Any = torch.compile(model, dynamic=True) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=optim.base_lr, weight_decay=optim.weight_decay)
    (walks,) = batch.pe.values()
    features = as_dense(batch.x).flatten(), walks, batch.edge_index, batch.edge_attr.flatten(), batch.ragged.graph_id

    def step() -> None:
        optimizer.zero_grad()
        task.loss(forward(*features), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), optim.clip_grad_norm_value)
        optimizer.step()

    return step, model


def sgformer_epoch(path: Path | None, ours: Prepared) -> Peer:
    """A step of PyG's model on one graph and one evaluation.

    Args:
        path: none; PyG is installed.
        ours: gives sizes and the graph.
    """
    del path
    batch, rows = ours.first
    assert batch.y is not None
    y, graph = batch.y, torch.zeros(batch.num_nodes, dtype=torch.int64)
    features = as_dense(batch.x), batch.edge_index, graph
    model = pyg_model(ours.model, features[0].shape[1], ours.info.out_dim)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)

    def epoch() -> None:
        model.train()
        optimizer.zero_grad()
        F.nll_loss(model(*features)[rows], y[rows]).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            model(*features)

    return epoch, model
