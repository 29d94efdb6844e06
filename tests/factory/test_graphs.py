"""Graphs of users as batches."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Batch, Data

import graphbench
from graphbench.errors import UserError
from graphbench.factory.graphs import batch_of


def test_batch_of_is_the_batch_of_the_data_set() -> None:
    """PyG graphs, alone or in a batch, are for a model what the loop of a run makes of the same graphs."""
    sizes = {"dataset.SBM.train_graphs": 4, "dataset.SBM.val_graphs": 2, "dataset.SBM.test_graphs": 2}
    config = graphbench.load_config("quickstart", sizes)
    loaded = graphbench.encode(config, graphbench.read_data(config))
    store = loaded.store
    model = graphbench.build_model(config, loaded.card.info(store)).eval()
    graphs = []
    for number in (2, 0):
        alone = store.gather([number])
        graphs.append(Data(x=alone.x, edge_index=alone.edge_index, y=alone.y))
    expected = model(store.gather([2, 0]))
    for given in (graphs, Batch.from_data_list(graphs), iter(graphs)):
        batch = batch_of(config, given)
        assert torch.equal(batch.y, store.gather([2, 0]).y)
        torch.testing.assert_close(model(batch), expected)
    with pytest.raises(TypeError, match=r"takes a GraphBatch, received DataBatch\. graphbench\.batch_of"):
        model(Batch.from_data_list(graphs))
    with pytest.raises(UserError, match=r"^graphs: received str of length 4\.$"):
        batch_of(config, "test")
    with pytest.raises(UserError, match=r"^graphs: .*edge_attr"):
        graphbench.batch_of(
            config,
            [
                graphs[0],
                Data(x=graphs[0].x, edge_index=graphs[0].edge_index, edge_attr=torch.ones(graphs[0].num_edges, 1)),
            ],
        )
