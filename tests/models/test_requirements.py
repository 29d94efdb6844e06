"""What models demand of their arguments."""

from __future__ import annotations

import pytest
import torch

from graphbench.layers.local.gcn import GCN
from graphbench.models.requirements import EdgeTables, check_per_node, check_same_width, local_layers
from tests.contract import example_batch


def test_a_layer_reads_its_columns() -> None:
    e = torch.arange(12.0).view(2, 6)
    assert EdgeTables("shared", 3, 2, 3).of(e, 1) is e
    assert torch.equal(EdgeTables("per_layer", 3, 2, 6).of(e, 1), e[:, 3:])
    assert EdgeTables("per_layer", 3, 2, None).of(None, 1) is None
    with pytest.raises(ValueError, match="one of shared, per_layer, per_layer_and_first; received 'own'"):
        EdgeTables("own", 3, 2, 6)


def test_the_first_layer_adds_the_columns_that_are_left() -> None:
    e = torch.arange(12.0).view(2, 6)
    tables = EdgeTables("per_layer_and_first", 2, 2, 6)
    assert torch.equal(tables.of(e, 0), e[:, :2] + e[:, 4:])
    assert torch.equal(tables.of(e, 1), e[:, 2:4])
    with pytest.raises(ValueError, match="read 8 columns of the edge states, received 6; set gnn"):
        EdgeTables("per_layer_and_first", 2, 3, 6)


def test_what_is_wrong_is_named() -> None:
    assert local_layers(GCN, 1) is GCN
    with pytest.raises(ValueError, match="1 or more local layers are needed, received 2 of none"):
        local_layers(None, 2)
    check_same_width(4, 4, "they are added")
    with pytest.raises(ValueError, match="they are added, received 3 and 4 columns"):
        check_same_width(3, 4, "they are added")
    batch = example_batch((2, 1))
    check_per_node(torch.zeros(3), batch, "classes")
    with pytest.raises(ValueError, match="classes needs a prediction per node, received 2 for 3 nodes"):
        check_per_node(torch.zeros(2), batch, "classes")
