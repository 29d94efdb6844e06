"""What the forks' keys mean once they are built: the tables of ``compat``, groups of GraphGym, refused combinations."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from graphbench.config import load_config
from graphbench.errors import UserError
from graphbench.factory.data import declared_info
from graphbench.factory.model import build_model, layer_names
from graphbench.layers.norm import BatchNorm
from graphbench.layers.single import SingleBlock

ZINC = """
dataset: {format: PyG-ZINC, name: subset, task: graph, task_type: regression, transductive: false, node_encoder: true,
  node_encoder_name: TypeDictNode, node_encoder_num_types: 28, node_encoder_bn: true, edge_encoder: true,
  edge_encoder_name: TypeDictEdge, edge_encoder_num_types: 4, edge_encoder_bn: false}
model: {type: GPSModel, loss_fun: l1}
gt: {layer_type: GINE+Transformer, layers: 1, n_heads: 4, dim_hidden: 16}
gnn: {head: san_graph, dim_inner: 16, layers_pre_mp: 1, act: gelu}
"""


@pytest.fixture
def built(tmp_path: Path):
    def build(*overrides: str):
        path = tmp_path / "x.yaml"
        path.write_text(ZINC)
        config = load_config(path, overrides)
        return build_model(config, declared_info(config))

    return build


def test_exphormer_has_graphnorm_under_layer_norm_and_relu_inside(built) -> None:
    norm = "gt.layer_norm true gt.batch_norm false"
    ours = built(*norm.split()).layers[0]
    theirs = built(*norm.split(), "compat", "exphormer").layers[0]
    assert type(ours.norm_out).__name__ == "GraphLayerNorm"
    assert type(theirs.norm_out).__name__ == "GraphNorm"
    assert isinstance(theirs.feed_forward.act, torch.nn.ReLU)
    assert isinstance(ours.feed_forward.act, torch.nn.GELU)


def test_pna_reads_narrow_edges(built) -> None:
    wide = "gt.layer_type PNA+Transformer gt.dim_hidden 256 gnn.dim_inner 256".split()
    assert built(*wide).edge_encoder.dim == 128
    assert built(*wide, "compat", "exphormer").edge_encoder.dim == 16


def test_the_lrgb_fork_has_another_gine(built) -> None:
    ours, theirs = built(), built("compat", "lrgb")
    assert [type(each).__name__ for each in ours.layers[0].sublayers[0].mlp] == ["Linear", "GELU", "Linear"]
    assert [type(each).__name__ for each in theirs.layers[0].sublayers[0].mlp] == ["BatchNorm", "Linear"]


def test_a_single_model_has_no_feed_forward_part(built) -> None:
    model = built("model.type", "SingleModel", "gt.layer_type", "GINE")
    assert isinstance(model.layers[0], SingleBlock)
    assert layer_names(model) == ["GINE"]
    with pytest.raises(UserError, match=r"have one layer, received 'GINE\+Transformer'"):
        built("model.type", "SingleModel")


def test_bn_describes_graphgyms_norms_only(built) -> None:
    model = built("bn.eps", "0.5", "bn.mom", "0.25")
    described = {model.encoder.norm, model.pre_mp[0].norm}
    for module in model.modules():
        if isinstance(module, BatchNorm):
            expected = (0.5, 0.25) if module in described else (1e-5, 0.1)
            assert (module.eps, module.momentum) == expected


def test_parts_may_work_on_the_expander(built) -> None:
    model = built("model.type", "MultiModel", "gt.layer_type", "GINE__exp+GCN+Exphormer", "prep.exp", "true")
    assert [branch.edges for branch in model.layers[0].branches] == ["exp", None, None]
    assert model.prepare is not None
    assert layer_names(model) == ["GINE+GCN+Exphormer"]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ("gt.layer_type None+None", "at least one of them not None"),
        ("gt.layer_type GCN+SANLayer", "SANLayer is a complete layer and cannot be joined with others"),
        (
            "gt.layer_type None+BiasedTransformer dataset.node_encoder_name TypeDictNode+GraphormerBias "
            "posenc_GraphormerBias.enable true posenc_GraphormerBias.num_spatial_types 4 "
            "posenc_GraphormerBias.num_in_degrees 8 posenc_GraphormerBias.num_out_degrees 8 graphormer.num_heads 2",
            "graphormer.num_heads sizes the bias .* must equal gt.n_heads, received 2 and 4",
        ),
        (
            "gt.layer_type DeepNorm dataset.node_encoder_name TypeDictNode+HopMask posenc_HopMask.enable true "
            "graphormer.num_heads 2",
            "graphormer.num_heads sizes the bias .* must equal gt.n_heads, received 2 and 4",
        ),
        ("model.graph_pooling graph_token", "graph_token reads the token that GraphToken, or GraphormerBias"),
        ("model.type MultiModel gt.layer_type Exphormer dataset.edge_encoder false", "set dataset.edge_encoder"),
        (
            "model.type MultiModel gt.layer_type Exphormer prep.add_edge_index false",
            "nothing to attend along: use expander edges",
        ),
        ("dataset.split_mode randon", "unknown dataset.split_mode 'randon'. Did you mean 'random'"),
        ("train.eval_smoothing_metrics true gt.dim_edge 8", "which only lrgb has.*say which is meant with 'compat"),
        ("model.type Graphormer", "graphormer.embed_dim and gnn.dim_inner are the same width"),
    ],
)
def test_impossible_combinations_are_named(built, overrides: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        built(*overrides.split())


@pytest.mark.parametrize(
    ("overrides", "compat"),
    [
        ("", "graphgps"),
        ("gt.layer_type GCN+Transformer", "graphgps"),
        ("prep.exp true", "exphormer"),
        ("model.type MultiModel", "exphormer"),
        ("train.eval_smoothing_metrics true", "lrgb"),
        ("gnn.head mlp_graph", "lrgb"),
        ("model.type custom_gnn gnn.layer_type gcnconv", "lrgb"),
        ("model.type custom_gnn gnn.layer_type gineconv", "graphgps"),
        ("prep.exp true compat graphgps", "graphgps"),
    ],
)
def test_the_fork_is_inferred_from_what_only_it_has(tmp_path: Path, overrides: str, compat: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(ZINC)
    config = load_config(path, overrides.split())
    assert config.tree.compat == compat
    inferred = compat != "graphgps"
    assert any("set compat to choose otherwise" in notice for notice in config.notices) == inferred
