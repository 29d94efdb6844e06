"""Names of models from names of configurations."""

from __future__ import annotations

import pytest

from graphbench.tables.model_names import model_name


@pytest.mark.parametrize(
    ("config", "dataset", "name"),
    [
        ("sgformer-cora", "Cora", "sgformer"),
        ("gps-zinc-func", "Peptides-func", "gps-zinc"),
        ("gcn-chameleon", "Chameleon_filtered", "gcn"),
        ("sgformer-cora", "Actor", "sgformer-cora"),
        ("rings", "rings", "rings"),
        ("sgformer-cora-wide", "Cora", "sgformer-wide"),
        ("zinc-GPS", "ZINC", "GPS"),
    ],
)
def test_the_data_set_is_left_out(config: str, dataset: str, name: str) -> None:
    assert model_name(config, dataset) == name
