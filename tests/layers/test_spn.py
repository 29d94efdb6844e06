"""SPN against its sum over hops, with distances of all pairs and with neighbour lists."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from graphbench.data.store import GraphStore
from graphbench.layers.local.spn import SPN
from graphbench.structures import GraphBatch, HopNeighbors
from graphbench.transforms.hop_neighbors import HopNeighbors as HopTransform
from tests.contract import example_batch, shaken


def listed(batch: GraphBatch, cutoff: int) -> GraphBatch:
    """The same graphs with neighbour lists in place of distances."""
    store = GraphStore.from_arrays([batch.num_nodes], [batch.num_edges], batch.edge_index)
    lists = HopTransform(cutoff)(store)
    hops = HopNeighbors(lists["row_ptr"], lists["col"].long(), lists["hop"])
    return batch.replace(pairs=None, hops=hops)


@pytest.mark.parametrize("hops", [1, 4])
def test_layer_is_its_equation(hops: int) -> None:
    batch = example_batch((9, 1, 5))
    layer = shaken(SPN(12, 8, hops=hops, eps=0.5).double()).eval()
    blocks = [batch.pairs.block(graph).numpy() for graph in range(3)]
    share = layer.hop_logits.softmax(0).detach().numpy()
    weight = [sum(share[k - 1] * (block == k) for k in range(1, hops + 1)) for block in blocks]
    around = [torch.from_numpy(np.asarray(w, dtype=np.float64)) @ x for w, x in zip(weight, batch.x.split((9, 1, 5)))]
    h = 1.5 * batch.x + torch.cat(around)
    for linear, norm in ((layer.mlp[0], layer.mlp[1]), (layer.mlp[3], layer.mlp[4])):
        h = F.batch_norm(linear(h), norm.running_mean, norm.running_var, norm.weight, norm.bias).relu()
    for known in (batch, listed(batch, hops)):
        new, e = layer(batch.x, batch.edge_attr, known)
        torch.testing.assert_close(new, h)
        assert e is batch.edge_attr


def test_it_asks_for_neighbour_lists() -> None:
    assert SPN.required_transforms({"hops": 7}) == {"HopNeighbors": {"cutoff": 7}}
