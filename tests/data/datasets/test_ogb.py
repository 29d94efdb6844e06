from __future__ import annotations

import pytest

from graphbench.data.datasets.ogb import OGB
from graphbench.errors import UserError


def test_names() -> None:
    assert OGB("ogbg_molhiv").card.name == "ogbg-molhiv"
    with pytest.raises(UserError, match=r"unknown OGB data set .*'peptides-func'. Did you mean 'peptides-functional'"):
        OGB("peptides-func")


def test_arguments_reach_the_class_that_knows_them() -> None:
    assert OGB("ogbn-proteins", node_features="edge_mean").card.node_in == 8
    assert OGB("ogbn-proteins").card.node_in == 1
    assert OGB("ogbg-molhiv", add_reverse_edges=True).card.node_in == 9
    with pytest.raises(ValueError, match="node_features must be"):
        OGB("ogbn-proteins", node_features="mean")  # type: ignore[arg-type]
