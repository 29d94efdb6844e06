"""A finished run read back: its model, trained and as initialised, and one of its graphs."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import nn

from graphbench.data.loading.loader import GraphLoaders
from graphbench.data.loading.process import LoaderProcess
from graphbench.errors import UserError
from graphbench.factory.graphs import gather
from graphbench.factory.model import build_model
from graphbench.factory.transforms import batch_transform
from graphbench.run_inputs import read_finished
from graphbench.structures import GraphBatch
from graphbench.train.pretrained import load_parameters, read_best_of
from graphbench.train.seeding import seed_everything


@dataclass(frozen=True)
class Trained:
    """Model and graph of a run.

    Attributes:
        config: name of the configuration.
        run_id: number of the run.
        epoch: the best one, whose parameters ``model`` has.
        initial: the model before training. BatchNorm has no statistics yet and takes those of the graph it sees.
        model: the model of the best epoch, in evaluation mode, on the CPU.
        batch: batch with the graph and its encodings: alone, or with all others where examples are nodes or pairs.
        position: position of the graph in the batch.
    """

    config: str
    run_id: str
    epoch: int
    initial: nn.Module
    model: nn.Module
    batch: GraphBatch
    position: int

    @property
    def num_nodes(self) -> int:
        """Number of nodes of the graph."""
        return self.batch.ragged.sizes[self.position]

    @property
    def edge_index(self) -> np.ndarray:
        """(2, E) edges of the graph, its nodes numbered from 0."""
        ragged, edges = self.batch.ragged, self.batch.edge_index
        inside = ragged.graph_id[edges[0]] == self.position
        return (edges[:, inside] - ragged.ptr[self.position]).numpy()


def read_trained(path: Path, split: str, graph: int) -> Trained:
    """Reads a run's configuration, data and best parameters.

    Args:
        path: directory of the run, or that of its configuration, where there is one run or one of number 0.
        split: split in which ``graph`` counts. Where examples are nodes, all graphs belong to every split.
        graph: number of the graph, from 0.

    Raises:
        UserError: no such run or graph, or the run kept no checkpoint.
    """
    run, best = read_best_of(path, 0)
    finished = read_finished(run)
    record, config, raw, splits = finished.record, finished.config, finished.raw, finished.splits
    examples = splits.parts()[split]
    count = raw.store.num_graphs if raw.card.transductive else len(examples)
    if not 0 <= graph < count:
        raise UserError(f"--graph must lie in 0 .. {count - 1} ({split}), received {graph}.")
    loaded = finished.encoded()
    info = loaded.card.info(loaded.store, splits.train)
    seed_everything(record.seed)
    model = build_model(config, info).eval()
    initial = copy.deepcopy(model)
    for norm in initial.modules():
        if isinstance(norm, nn.BatchNorm1d):
            norm.train()
    load_parameters(model, best["model"], reset_head=False)
    if loaded.card.transductive:
        loaders = GraphLoaders(
            loaded.store,
            splits,
            LoaderProcess(record.seed),
            batch_size=1,
            transductive=True,
            batch_transform=batch_transform(config),
        )
        return Trained(record.config, record.run_id, best["epoch"], initial, model, loaders.full_batch, graph)
    batch = gather(config, loaded.store, [int(examples[graph])])
    return Trained(record.config, record.run_id, best["epoch"], initial, model, batch, 0)
