"""An epoch of GPS layers written with PyG, at the sizes of a configuration of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINEConv, GPSConv, global_mean_pool

from graphbench.benchmarks.gps_step import PyGGatedGCN
from graphbench.benchmarks.training import Training

FEATURES = 200
"""Values of an integer feature, at most."""


class PyGNetwork(nn.Module):
    """Sums of embeddings, GPS layers, mean pooling and a linear map.

    Args:
        ours: model whose width, depth, heads and dropout it has.
        example: a graph.
    """

    def __init__(self, ours: Training, example: Data) -> None:
        super().__init__()
        gt, dim = ours.config.tree.gt, ours.config.tree.gt.dim_hidden
        self._gated = gt.layer_type.startswith("CustomGatedGCN")
        self.nodes = nn.ModuleList(nn.Embedding(FEATURES, dim) for _ in range(example.x.shape[1]))
        self.edges = nn.ModuleList(nn.Embedding(FEATURES, dim) for _ in range(example.edge_attr.shape[1]))
        self.encodings = nn.Linear(example.pe.shape[1], dim)
        self.layers = nn.ModuleList(
            GPSConv(
                dim, self._conv(dim), heads=gt.n_heads, dropout=gt.dropout, attn_kwargs={"dropout": gt.attn_dropout}
            )
            for _ in range(gt.layers)
        )
        self.out = nn.Linear(dim, ours.info.out_dim)

    def _conv(self, dim: int) -> nn.Module:
        if self._gated:
            return PyGGatedGCN(dim)
        return GINEConv(nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim)))

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, pe: Tensor, batch: Tensor, size: int) -> Tensor:
        """(size, classes) predictions of the graphs."""
        h: Any = self.encodings(pe)
        for column, embedding in enumerate(self.nodes):
            h = h + embedding(x[:, column])
        e: Any = sum(embedding(edge_attr[:, column]) for column, embedding in enumerate(self.edges))
        for layer in self.layers:
            h = layer(h, edge_index, batch, edge_attr=e)
            if self._gated:
                e = layer.conv.edge
        return self.out(global_mean_pool(h, batch, size))


def gps_epochs(ours: Training, compiled: bool = False) -> Callable[[], None]:
    """Makes epochs: steps on the training graphs, predictions of all others on the host.

    Args:
        ours: gives data, splits, batch size and loss.
        compiled: by ``torch.compile`` for any number of nodes.
    """
    device, task = ours.device, ours.task
    parts = {part: list(_graphs(ours, rows)) for part, rows in ours.splits.parts().items()}
    size = ours.config.tree.train.batch_size
    loaders = {
        part: DataLoader(graphs, size, shuffle=part == "train", pin_memory=device.type == "cuda")
        for part, graphs in parts.items()
    }
    torch.manual_seed(0)
    network = PyGNetwork(ours, parts["train"][0]).to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)
    forward: Any = torch.compile(network, dynamic=True) if compiled else network

    def predict(data: Any) -> Tensor:
        arguments = (data.x, data.edge_index, data.edge_attr, data.pe, data.batch)
        return forward(*arguments, data.num_graphs)

    def epochs() -> None:
        for _ in range(ours.epochs):
            epoch()

    def epoch() -> list[Tensor]:
        network.train()
        for data in loaders["train"]:
            on_device = data.to(device, non_blocking=True)
            optimizer.zero_grad()
            task.loss(predict(on_device), on_device.y).backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
        network.eval()
        with torch.no_grad():
            others = [part for part in loaders if part != "train"]
            predictions = [predict(data.to(device, non_blocking=True)) for part in others for data in loaders[part]]
        return [each.cpu() for each in predictions]

    return epochs


def _graphs(ours: Training, rows: Tensor) -> Iterator[Data]:
    for graph in rows.tolist():
        one = ours.store.gather([graph])
        x, edge_attr = (each.long().reshape(len(each), -1) for each in (one.x, one.edge_attr))
        encodings = [value.flatten(1) for value in one.pe.values()] or [torch.zeros(len(x), 1)]
        pe = torch.cat(encodings, dim=1).float().nan_to_num()
        yield Data(x=x, edge_index=one.edge_index, edge_attr=edge_attr, pe=pe, y=one.y)
