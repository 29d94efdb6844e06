"""GraphGym's network against GraphGym itself, and GraphGPS's ``custom_gnn``."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch

from graphbench import registry
from graphbench.encoders.compose import NodeEncoder
from graphbench.encoders.edge.linear import LinearEdge
from graphbench.heads.graph import GraphHead
from graphbench.layers.blocks.convolution import GCNBlock
from graphbench.models.gnn import GNN
from graphbench.models.gps_variants import CustomGNN
from graphbench.models.pre_layers import LayerSettings, pre_layers
from tests.contract import example_batch, shaken

with warnings.catch_warnings():  # without pytorch_lightning, GraphGym's networks are plain modules
    warnings.filterwarnings("ignore", "To use GraphGym", UserWarning)
    from torch_geometric.graphgym.config import cfg, set_cfg
    from torch_geometric.graphgym.models.gnn import GNN as GraphGymGNN

DIM, IN, OUT = 6, 5, 3
RENAMED = {
    "layer.model.nn.": "conv.mlp.",
    "layer.model.weight_self": "conv.lin_self.weight",
    "layer.model.weight": "conv.lin.weight",
    "layer.model.lin_l.": "conv.lin_neighbor.",
    "layer.model.lin_r.": "conv.lin_self.",
    "layer.model.linear_self.": "conv.lin_self.",
    "layer.model.att_src": "conv.att_source",
    "layer.model.att_dst": "conv.att_target",
    "layer.model.": "conv.",
}


@pytest.fixture
def settings() -> Iterator[Any]:
    """GraphGym's one global configuration, put back afterwards."""
    set_cfg(cfg)
    cfg.dataset.node_encoder = False
    cfg.dataset.edge_dim = DIM
    cfg.gnn.dim_inner, cfg.gnn.head, cfg.gnn.layers_mp = DIM, "graph", 3
    yield cfg.gnn
    set_cfg(cfg)


def ours_of(gnn: Any, local: str) -> GNN:
    """Our model, from what build takes out of a configuration."""
    context = {name: gnn[name] for name in ("batchnorm", "agg", "normalize_adj", "self_msg", "msg_direction")}

    def conv(dim_in: int, dim_out: int) -> torch.nn.Module:
        context.update(dim_in=dim_in, dim_out=dim_out, dim_edge=DIM)
        return registry.construct(registry.lookup("layers/local", local), context)

    settings = LayerSettings(batchnorm=gnn.batchnorm, dropout=gnn.dropout, act=gnn.act, l2norm=gnn.l2norm)
    return GNN(
        NodeEncoder(None, {}, IN, batch_norm=False),
        IN,
        LinearEdge(DIM, DIM) if local == "generaledgeconv" else None,
        DIM,
        gnn.layers_mp,
        conv,
        lambda width: GraphHead(width, OUT, layers_post_mp=2, pooling=cfg.model.graph_pooling),
        pre_mp=pre_layers(IN, DIM, gnn.layers_pre_mp, settings),
        stage_type=gnn.stage_type,
        post=settings,
    )


def renamed(name: str, value: Tensor) -> dict[str, Tensor]:
    """A weight of GraphGym's model under our names."""
    if found := re.fullmatch(r"post_mp\.layer_post_mp\.model\.(0\.Layer_0\.layer|1)\.model\.(\w+)", name):
        return {f"head.mlp.lin.{found[1][0]}.{found[2]}": value}
    if found := re.fullmatch(r"pre_mp\.Layer_(\d+)\.layer\.model\.(\w+)", name):
        return {f"pre_mp.{found[1]}.lin.{found[2]}": value}
    place, number, rest = re.fullmatch(r"(pre_mp|mp)\.\w+?(\d+)\.(.+)", name).groups()
    at = f"{'pre_mp' if place == 'pre_mp' else 'layers'}.{number}."
    if rest.startswith("post_layer."):
        # BatchNorm has statistics and a bias, PReLU one number.
        return {at + ("act.weight" if value.shape == (1,) else "norm." + rest.split(".")[-1]): value}
    if rest == "layer.model.linear_msg.weight":
        ends = value.split([value.shape[1] - DIM, DIM], dim=1)
        parts = dict(zip(("target", "source"), ends[0].chunk(2, dim=1))) if ends[0].shape[1] == 2 * DIM else {}
        parts = parts or {"source": ends[0]}
        return {f"{at}conv.lin_{end}.weight": each for end, each in (parts | {"edge": ends[1]}).items()}
    for theirs, own in RENAMED.items():
        if rest.startswith(theirs):
            transposed = value.T if theirs in ("layer.model.weight", "layer.model.weight_self") else value
            return {at + rest.replace(theirs, own, 1): transposed}
    raise AssertionError(name)


CASES = [
    *({"layer_type": name} for name in ("generalconv", "gcnconv", "sageconv", "gatconv", "ginconv", "generaledgeconv")),
    *({"layer_type": name, "batchnorm": False} for name in ("generalconv", "gcnconv", "sageconv", "gatconv")),
    {"stage_type": "skipsum"},
    {"stage_type": "skipconcat"},
    {"stage_type": "skipconcat", "layer_type": "ginconv", "layers_pre_mp": 0},
    {"layers_pre_mp": 0, "l2norm": False},
    {"agg": "mean", "self_msg": "add"},
    {"agg": "max", "self_msg": "none"},
    {"normalize_adj": True, "batchnorm": False},
    {"layer_type": "generaledgeconv", "msg_direction": "both", "agg": "mean", "batchnorm": False},
    {"layer_type": "generaledgeconv", "self_msg": "add"},
    {"layer_type": "generaledgeconv", "self_msg": "none", "agg": "max"},
]


@pytest.mark.parametrize("changes", CASES, ids=lambda changes: "-".join(str(each) for each in changes.values()))
def test_equals_graphgym(changes: dict[str, Any], settings: Any) -> None:
    changes = {"layers_pre_mp": 1, "act": "prelu", "layers_post_mp": 2, **changes}
    for name, value in changes.items():
        settings[name] = value
    theirs = shaken(GraphGymGNN(IN, OUT).double()).eval()
    ours = ours_of(settings, settings.layer_type).double().eval()
    if ours.edge_encoder is not None:
        with torch.no_grad():  # theirs reads the edge features as they are
            ours.edge_encoder.lin.weight.copy_(torch.eye(DIM))
            ours.edge_encoder.lin.bias.zero_()
    state = {}
    for name, value in theirs.state_dict().items():
        state |= renamed(name, value)
    left_out = ours.load_state_dict(state, strict=False)
    assert not left_out.unexpected_keys
    assert all(name.startswith("edge_encoder.") for name in left_out.missing_keys), left_out.missing_keys
    count = sum(each.numel() for name, each in ours.named_parameters() if not name.startswith("edge_encoder."))
    assert count == sum(each.numel() for each in theirs.parameters())

    batch = example_batch(node_dim=IN, edge_dim=DIM)
    graph = Batch(x=batch.x, edge_index=batch.edge_index, edge_attr=batch.edge_attr, batch=batch.ragged.graph_id, y=0)
    expected, _ = theirs(graph)
    torch.testing.assert_close(ours(batch), expected, rtol=1e-10, atol=1e-11)


def test_wrong_values_are_named(settings: Any) -> None:
    for changes, message in (
        ({"stage_type": "skip"}, "stack, skipsum, skipconcat; received 'skip'"),
        ({"layers_mp": -1}, "received -1"),
        ({"stage_type": "skipsum", "layers_pre_mp": 0}, "gives 5 columns where 6 are read"),
        ({"layers_mp": 0, "layers_pre_mp": 0}, "gives 5 columns where 6 are read"),
        ({"agg": "median"}, "add, sum, mean, max; received 'median'"),
        ({"self_msg": "cat"}, "none, add, concat; received 'cat'"),
        ({"agg": "mean", "normalize_adj": True}, "set agg to add, received agg='mean'"),
    ):
        set_cfg(cfg)
        cfg.gnn.dim_inner, cfg.gnn.layers_mp, cfg.gnn.layers_pre_mp = DIM, 2, 1
        for name, value in changes.items():
            cfg.gnn[name] = value
        with pytest.raises(ValueError, match=re.escape(message)):
            ours_of(cfg.gnn, "generalconv")


def test_custom_gnn_reads_its_blocks_from_the_gnn_section() -> None:
    assert (CustomGNN.layers_from, CustomGNN.layer) == ("gnn", None)
    model = CustomGNN(
        NodeEncoder(None, {}, DIM, batch_norm=False),
        DIM,
        None,
        DIM,
        2,
        lambda: GCNBlock(DIM),
        lambda w: GraphHead(w, 1),
    )
    assert [type(layer) for layer in model.layers] == [GCNBlock, GCNBlock]
    batch = example_batch(node_dim=DIM)
    h = batch.x
    for layer in model.double().layers:
        h = layer.conv(h, None, batch)[0].relu()
    torch.testing.assert_close(model(batch), model.head(h, batch))
