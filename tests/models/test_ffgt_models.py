"""Vanilla-FFGT, GRPE and GRPE-FFGT as complete models: recorded networks of the released code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphbench.config import load_config
from graphbench.encoders.compose import NodeEncoder
from graphbench.encoders.node.linear import LinearNode
from graphbench.encoders.node.type_dict import TypeDictNode
from graphbench.encoders.positional.add_lap_pe import AddLapPE
from graphbench.encoders.positional.graph_token import GraphToken
from graphbench.errors import UserError
from graphbench.factory.data import declared_info
from graphbench.factory.model import build_model
from graphbench.factory.transforms import build_transforms
from graphbench.heads.norm_mlp import NormMLPGraphHead, NormMLPNodeHead
from graphbench.layers.attention.ffgt.settings import FocalSettings
from graphbench.layers.blocks.pre_norm import FFGTLayer, GRPELayer
from graphbench.layers.contract import Block
from graphbench.models.stacked import GPSModel
from tests.layers.attention.ffgt.test_layer import recorded_batch
from tests.layers.recorded import close
from tests.paths import ROOT

NETS = ["ffgt/grpe_net_tables_per_layer", "ffgt/grpe_net_zinc", "ffgt/vanilla_net_node", "ffgt/vanilla_net_zinc"]
NETS += ["grpe/grpe_net_1layer_longhop", "grpe/grpe_net_shared_tables", "grpe/grpe_net_tables_per_layer"]


def model_of(config: dict[str, Any], out_dim: int) -> GPSModel:
    """The network with the quirks of the released code; GRPE's own code has no focal heads and unshifted types."""
    dim, graphs, focal = config["dim"], config.get("task", "graph") == "graph", config.get("focal_heads", 0)
    settings = FocalSettings(
        focal_heads=focal,
        focal_length=config.get("max_dist", 1),
        num_edge_types=config["num_edge_type"],
        edge_offset=2 if focal else 0,
        tables_per_layer=config["tables_per_layer"],
        unreachable="full",
        released=True,
    )
    heads, max_hop, ffn_dim = config["heads"], config["max_hop"], config["ffn_dim"]

    def layer() -> Block:
        if max_hop is None:
            return FFGTLayer(dim, heads, ffn_dim=ffn_dim, focal=settings)
        return GRPELayer(dim, heads, max_hop=max_hop, ffn_dim=ffn_dim, focal=settings)

    kinds = config["num_node_type"]
    features = TypeDictNode(dim, kinds) if kinds > 0 else LinearNode(dim, -kinds)
    contextual: dict[str, nn.Module] = {}
    if config.get("lap_pe"):
        contextual["AddLapPE"] = AddLapPE(dim, max_freqs=config["lap_pe"])
    if graphs:
        contextual["GraphToken"] = GraphToken(dim)
    head: Callable[[int], nn.Module] = lambda width: (NormMLPGraphHead if graphs else NormMLPNodeHead)(  # noqa: E731
        width, out_dim, layers_post_mp=1 + config["last_mlp"]
    )
    encoder = NodeEncoder(features, {}, dim, batch_norm=False, batch_encoders=contextual)
    return GPSModel(encoder, dim, None, dim, config["layers"], layer, head).double().eval()


def ours(name: str, config: dict[str, Any]) -> list[str]:
    """Our names of a recorded weight; a table that serves all layers has one name per layer."""
    layers = range(config["layers"])
    if name.startswith("bias."):
        _, table, *layer, _ = name.split(".")
        return [f"layers.{each}.attention.tables.tables.{table}" for each in layer or layers]
    node = "type_emb" if config["num_node_type"] > 0 else "lin"
    for recorded, own in (
        ("task_token.weight", "encoder.contextual.GraphToken.token"),
        ("encoder.node.", f"encoder.features.{node}."),
        ("encoder.pe.lin_in.", "encoder.contextual.AddLapPE.lin_in."),
        ("encoder.pe.mlp.0.", "encoder.contextual.AddLapPE.mlp.0."),
        ("head.mlp.", "head.hidden."),
        ("head.lin_out.", "head.lin."),
    ):
        if name.startswith(recorded):
            return [own + name.removeprefix(recorded)]
    for recorded, own in (
        ("norm_attn.", "norm_attention."),
        ("attn.", "attention."),
        ("ffn.in.", "feed_forward.lin_in."),
        ("ffn.out.", "feed_forward.lin_out."),
    ):
        name = name.replace("." + recorded, "." + own)
    return [name]


def renamed(arrays: dict[str, Any], kind: str) -> dict[str, Tensor]:
    config, found = arrays["config"], {}
    for key, value in arrays.items():
        if key.startswith(f"{kind}/") and not key.startswith(f"{kind}/in."):
            for name in ours(key.removeprefix(f"{kind}/"), config):
                found[name] = value.double()
    for layer in range(config["layers"]):
        for part in ("weight", "bias"):
            parts = [found.pop(f"layers.{layer}.attention.{each}.{part}") for each in "qkv"]
            found[f"layers.{layer}.attention.qkv.{part}"] = torch.cat(parts)
    return found


@pytest.mark.parametrize("name", NETS)
def test_network_equals_the_released_code(golden, name: str) -> None:
    arrays = golden(name)
    config = arrays["config"]
    if "in/edge_type_raw" not in arrays and "in/edge_type" not in arrays:  # every edge has one type
        arrays["in/edge_type"] = torch.zeros(arrays["in/edge_index"].shape[1], dtype=torch.int64)
    model = model_of(config, arrays["out/pred"].shape[1])
    left_out = model.load_state_dict(renamed(arrays, "w"), strict=False)
    assert not left_out.missing_keys
    assert not left_out.unexpected_keys

    x = arrays["in/x"]
    batch = recorded_batch(arrays, token=False).replace(x=x.double() if x.is_floating_point() else x)
    if "in/eigvecs" in arrays:
        pe = {f"AddLapPE.{each}": arrays[f"in/{each}"].double() for each in ("eigvecs", "eigvals")}
        batch = batch.replace(pe=pe)
    h, _ = model.encoder(batch)
    close(h, arrays["out/tokens_before_layer0_valid"], "states before the first layer")
    prediction = model(batch)
    close(prediction, arrays["out/pred"], "prediction")
    (prediction * arrays["in/grad_seed.pred"]).sum().backward()
    expected = renamed(arrays, "grad")
    for parameter_name, parameter in model.named_parameters():
        close(parameter.grad, expected[parameter_name], parameter_name)


def test_recorded_masks_are_ours(golden) -> None:
    """What focal heads see, graph token included, is the recorded mask."""
    for name in ("ffgt/grpe_layer_graph", "ffgt/vanilla_net_zinc"):
        arrays = golden(name)
        batch, reach = recorded_batch(arrays, token=True), arrays["config"]["max_dist"]
        for graph, size in enumerate(batch.ragged.sizes):
            hops = batch.pairs.block(graph)
            assert torch.equal((hops <= reach) | (hops >= 254), arrays["in/focal_mask"][graph, :size, :size])


def test_a_token_needs_a_head_of_graphs() -> None:
    """Built from a configuration: the head of nodes has no target for a graph token."""
    path = ROOT / "configs/synthetic/ffgt-sbm-pattern-p016.yaml"
    chosen = ["dataset.node_encoder_name", "LinearNode+AddLapPE+GraphToken", "posenc_GraphToken.enable", "true"]
    config = load_config(path, chosen)
    with pytest.raises(UserError, match=r"gnn\.head norm_mlp_node has no target; leave GraphToken out"):
        build_model(config, declared_info(config))


def test_layers_say_which_distances_they_read() -> None:
    path = ROOT / "configs/nodes/grpe-ffgt-cora.yaml"
    read = build_transforms(load_config(path))
    assert list(read) == ["ShortestPaths"]
    lists = ["gt.GRPELayer.neighbors", "lists", "gt.GRPELayer.focal_heads", "8", "gt.GRPELayer.focal_length", "2"]
    read = build_transforms(load_config(path, lists))
    assert list(read) == ["HopNeighbors"]
    assert read["HopNeighbors"].cutoff == 2
