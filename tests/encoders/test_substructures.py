"""Embedded counts of substructures: the sum of the rows that counts name, and messages."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from graphbench.config import load_config
from graphbench.encoders.positional.substructures import Substructures, SubstructuresEdge
from graphbench.factory.transforms import build_transforms
from graphbench.structures import GraphBatch, Ragged
from tests.paths import ROOT


def test_rows_are_added_and_the_last_is_shared() -> None:
    counts = torch.tensor([[0, 2, 0], [9, 1, 5], [1, 0, 0]], dtype=torch.int32)
    batch = GraphBatch(Ragged.from_sizes([3]), torch.empty(2, 0).long(), pe={"Substructures.counts": counts})
    encoder = Substructures(4, cycles=4, cliques=4, vocabulary=[2, 3, 4])
    cycle3, cycle4, clique4 = (table.weight for table in encoder.tables)
    expected = torch.stack(
        [cycle3[0] + cycle4[2] + clique4[0], cycle3[1] + cycle4[1] + clique4[3], cycle3[1] + cycle4[0] + clique4[0]]
    )
    torch.testing.assert_close(encoder(batch), expected)


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"vocabulary": [3, 3]}, "one for each of the 4 kinds of substructures, each at least 1, received \\[3, 3\\]"),
        ({"vocabulary": [0]}, "each at least 1, received \\[0\\]"),
        ({"vocabulary": []}, "each at least 1, received \\[\\]"),
        ({"dim_pe": 0}, "dim_pe must be at least 1"),
    ],
)
def test_wrong_arguments_are_named(own: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SubstructuresEdge(**{"dim_pe": 4, **own})


def test_encoder_and_transform_have_the_same_keys() -> None:
    keys = ["posenc_SubstructuresEdge.cycles", "8", "posenc_SubstructuresEdge.induced", "false"]
    keys += ["posenc_SubstructuresEdge.vocabulary", "[4]"]
    transform = build_transforms(load_config(ROOT / "configs/ogb/gsn-molhiv.yaml", keys))["SubstructuresEdge"]
    assert (transform.cycles, transform.cliques, transform.induced) == (8, 0, False)
