"""Groups of keys that describe layers: every key is one, every field is one, and what is declared is what is filled."""

from __future__ import annotations

import dataclasses

import pytest

from graphbench.config import load_config
from graphbench.config.schema import SCHEMA
from graphbench.errors import UserError
from graphbench.factory.layer_groups import GROUPS, GT, layer_group
from graphbench.layers.contract import LayerContext
from graphbench.models.contract import Model
from graphbench.registry import ATTENTIONS, BLOCKS, LOCAL_LAYERS

NAMESPACES = (ATTENTIONS, BLOCKS, LOCAL_LAYERS)
FIELDS = {field.name for field in dataclasses.fields(LayerContext)}


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)
def test_names_keys_and_fields_that_exist(group):
    keys = {group.number, group.width, *(f"{group.name}.{last}" for last in group.own)}
    for namespace in NAMESPACES:
        keys |= {*group.keys(namespace).values()}
        assert set(group.keys(namespace)) <= FIELDS
    assert keys <= set(SCHEMA)


@pytest.mark.parametrize("namespace", NAMESPACES)
@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)
def test_fills_fields_with_the_values_of_their_keys(group, namespace):
    config = load_config({"gnn": {"act": "gelu", "agg": "add"}, "gt": {"dropout": 0.1, "attn_dropout": 0.3}}, name="x")
    fields = group.fields(config, namespace)
    assert set(fields) - {"norm"} == set(group.keys(namespace))
    assert all(fields[name] == config.value(key) for name, key in group.keys(namespace).items())
    if group is GT:
        assert fields["dropout"] == (0.3 if namespace == ATTENTIONS else 0.1)
        assert ("norm" in fields) == (namespace == BLOCKS)


def test_a_model_of_no_group_says_which_there_are():
    class Misspelt(Model):
        registered_name = "misspelt"
        layers_from = "gtt"  # type: ignore[assignment]

    with pytest.raises(UserError, match=r"Misspelt.layers_from is one of gt, gnn, graphormer, received 'gtt'"):
        layer_group(Misspelt)
