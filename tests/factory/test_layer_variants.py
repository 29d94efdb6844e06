"""What ``compat`` makes of the message passing layers of GraphGPS and of its forks."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from torch import nn

from graphbench import registry
from graphbench.config import load_config
from graphbench.errors import UserError
from graphbench.factory.compat import VARIANTS
from graphbench.factory.model import build_model
from graphbench.structures import DataInfo

INFO = DataInfo("any", "graph", "regression", 7, 3, 1, "mae", False)
CONFIG = """
compat: {compat}
dataset: {{name: any, task: graph, task_type: regression, node_encoder: true, node_encoder_name: LinearNode,
          edge_encoder: true, edge_encoder_name: LinearEdge, edge_encoder_bn: false, node_encoder_bn: false}}
model: {{type: {model}, loss_fun: l1, graph_pooling: mean}}
gnn: {{layer_type: {layer}, layers_mp: 1, dim_inner: 8, act: gelu, dropout: 0.5, residual: {residual}, batchnorm: true}}
gt: {{layer_type: {layer}+None, layers: 1, dim_hidden: 8, n_heads: 2}}
"""


def layer_of(tmp_path: Path, model: str, compat: str, layer: str, residual: bool = False) -> nn.Module:
    path = tmp_path / f"{model}-{compat}.yaml"
    path.write_text(CONFIG.format(model=model, compat=compat, layer=layer, residual=str(residual).lower()))
    return build_model(load_config(path), INFO).layers[0]


def kinds(modules: nn.Module) -> list[str]:
    return [type(each).__name__ for each in modules]


def test_gine_of_custom_gnn(tmp_path: Path) -> None:
    for compat in ("graphgps", "exphormer"):
        layer = layer_of(tmp_path, "custom_gnn", compat, "gineconv")
        assert (kinds(layer.conv.mlp), type(layer.act)) == (["Linear", "ReLU", "Linear"], nn.ReLU)
    layer = layer_of(tmp_path, "custom_gnn", "lrgb", "gineconv")
    assert kinds(layer.conv.mlp) == ["Linear", "GELU", "Dropout", "Linear"]
    assert isinstance(layer.act, nn.Identity)


@pytest.mark.parametrize("residual", [True, False])
def test_gated_gcn_of_custom_gnn(tmp_path: Path, residual: bool) -> None:
    for compat, edges in (("graphgps", residual), ("exphormer", residual), ("lrgb", True)):
        layer = layer_of(tmp_path, "custom_gnn", compat, "gatedgcnconv", residual)
        assert isinstance(layer.act, nn.ReLU)  # whatever gnn.act says
        assert (layer.node_residual, layer.edge_residual, layer.dropout.p) == (residual, edges, 0.5)


def test_gcn_of_custom_gnn_and_of_graphgym(tmp_path: Path) -> None:
    layer = layer_of(tmp_path, "custom_gnn", "lrgb", "gcnconv", residual=True)
    assert (type(layer.act), layer.residual, layer.conv.bias is None) == (nn.GELU, True, False)
    layer = layer_of(tmp_path, "gnn", "graphgps", "gcnconv")
    assert (kinds(layer.children()), layer.conv.bias) == (["GraphGymGCN", "BatchNorm", "Dropout", "GELU"], None)


def test_gine_beside_attention(tmp_path: Path) -> None:
    for compat, expected in (
        ("graphgps", ["Linear", "GELU", "Linear"]),
        ("exphormer", ["Linear", "ReLU", "Linear"]),
        ("lrgb", ["BatchNorm", "Linear"]),
    ):
        assert kinds(layer_of(tmp_path, "GPSModel", compat, "GINE").sublayers[0].mlp) == expected


def test_no_default_of_a_section_hides_what_the_fork_chooses() -> None:
    for place, arguments in VARIANTS.items():
        _, namespace, _ = place
        if namespace in registry.NAMESPACES:
            context = registry.context_class(namespace)
            assert arguments.keys() <= {field.name for field in dataclasses.fields(context)}, place


def test_a_section_of_its_own_wins_over_the_fork(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    text = CONFIG.format(compat="lrgb", model="custom_gnn", layer="gineconv", residual="false")
    path.write_text(text.replace("gnn: {", "gnn: {gineconv: {dropout_inside: false}, "))
    assert kinds(build_model(load_config(path), INFO).layers[0].conv.mlp) == ["Linear", "GELU", "Linear"]


WIDTHS = [
    ("gt: {", "gt: {SFi: {dim: 4}, ", "gt.SFi.dim: dim of SFi is 8 in this model, received 4; leave it out"),
    ("gnn: {", "gnn: {mlp_graph: {out_dim: 2}, head: mlp_graph, ", "gnn.mlp_graph.out_dim: out_dim of .* is 1"),
    ("dataset: {", "dataset: {LinearNode: {dim: 4}, ", "dataset.LinearNode.dim: dim of LinearNode is 8"),
    ("gt: {", "gt: {SFi: {dim: 8, heads: 4}, ", None),
]


@pytest.mark.parametrize(("before", "after", "message"), WIDTHS)
def test_no_section_changes_the_width_of_what_a_component_is_handed(
    before: str, after: str, message: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "width.yaml"
    text = CONFIG.format(compat="graphgps", model="GPSModel", layer="GCN", residual="false")
    path.write_text(text.replace("GCN+None", "GCN+SFi").replace(before, after))
    if message is None:
        assert build_model(load_config(path), INFO).layers[0].sublayers[1].heads == 4
        return
    with pytest.raises(UserError, match=rf"width\.yaml:\d+: {message}"):
        build_model(load_config(path), INFO)


def test_design_choices_reach_the_layers_of_graphgym(tmp_path: Path) -> None:
    path = tmp_path / "gnn.yaml"
    text = CONFIG.format(compat="graphgps", model="gnn", layer="generaledgeconv", residual="false")
    chosen = "agg: mean, self_msg: none, msg_direction: both, stage_type: skipsum, layers_pre_mp: 1, l2norm: false, "
    path.write_text(text.replace("gnn: {", "gnn: {" + chosen))
    model = build_model(load_config(path), INFO)
    conv = model.layers[0].conv
    assert (conv.agg, conv.self_msg, conv.lin_target is None, conv.lin_self) == ("mean", "none", False, None)
    assert (model.stage_type, model.l2norm, model.layers[0].l2norm) == ("skipsum", False, False)


def test_unlike_mechanisms_for_full_and_focal_heads(tmp_path: Path) -> None:
    """Two attentions in one block, which FFGT's general form allows."""
    path = tmp_path / "compound.yaml"
    text = CONFIG.format(model="GPSModel", compat="graphgps", layer="GCN", residual="false")
    path.write_text(text.replace("GCN+None", "SFi+FFGT").replace("n_heads: 2}", "n_heads: 2, FFGT: {focal_heads: 2}}"))
    full, focal = build_model(load_config(path), INFO).layers[0].sublayers
    assert (type(full).__name__, focal.max_hops) == ("SFi", (1, 1))
