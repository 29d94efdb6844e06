"""GPS blocks against recorded outputs and gradients of GraphGPS."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from graphbench import registry
from graphbench.layers.attention.transformer import Transformer
from graphbench.layers.gps import GPSBlock
from graphbench.layers.local.gcn import GCN
from tests.contract import example_batch
from tests.layers.recorded import batch_of, check_gradients, close, load

RECORDED = [
    "CustomGatedGCN_Transformer_batch",
    "CustomGatedGCN_Transformer_equivstable",
    "CustomGatedGCN_Transformer_layer",
    "CustomGatedGCN_Transformer_nonorm",
    "GAT_Transformer_batch",
    "GAT_Transformer_layer",
    "GCN_Transformer_batch",
    "GCN_Transformer_layer",
    "GINE_None_batch",
    "GINE_Transformer_batch",
    "GINE_Transformer_layer",
    "GIN_Transformer_batch",
    "None_Transformer_batch",
    "None_Transformer_layer",
    "PNA_None_batch",
    "PNA_None_layer",
]


def ours(name: str) -> str:
    """Our name of a recorded weight: local layer and attention are the first and the second branch."""
    for recorded, own in (
        ("local.", "branches.0.part."),
        ("attention.", "branches.1.part."),
        ("norm_local.", "branches.0.norm."),
        ("norm_attention.", "branches.1.norm."),
    ):
        if name.startswith(recorded):
            return own + name.removeprefix(recorded)
    return name


def block_of(config: dict[str, Any]) -> GPSBlock:
    """The block a recorded configuration describes."""
    dim = config["dim"]
    context = {key: dim for key in ("dim", "dim_in", "dim_out", "dim_edge")} | {
        "heads": config["heads"],
        "act": config["act"],
        "equivstable": config.get("equivstable_pe", False),
    }

    def part(namespace: str, name: str, **more: Any) -> torch.nn.Module | None:
        return None if name == "None" else registry.construct(registry.lookup(namespace, name), context | more)

    return GPSBlock(
        dim,
        [
            part("layers/local", config["local"], dropout=config["dropout"]),
            part("layers/attention", config["global"], dropout=config["attn_dropout"]),
        ],
        dropout=config["dropout"],
        act=config["act"],
        norm=config["norm"],
    )


@pytest.mark.parametrize("name", RECORDED)
def test_equals_graphgps(name: str, golden: Any) -> None:
    arrays = golden(f"graphgps/gpslayer_{name}")
    block, batch = load(block_of(arrays["config"]), arrays, ours=ours), batch_of(arrays)
    after = {}
    for branch, norm in zip(block.branches, ("norm_local", "norm_attn"), strict=True):
        recorded = f"out/after_{norm}"
        if recorded in arrays:
            branch.norm.register_forward_hook(lambda _m, _i, out, key=recorded: after.update({key: out}))
    h, e, _ = block(batch.x, batch.edge_attr, batch)
    for key, value in after.items():
        close(value, arrays[key], key)
    close(h, arrays["out/x"], "nodes")
    outputs = {"x": h}
    if "out/edge_attr" in arrays:
        close(e, arrays["out/edge_attr"], "edges")
        outputs["edge_attr"] = e
    else:
        assert e is batch.edge_attr
    check_gradients(block, batch, outputs, arrays, ours=ours)


def test_block_without_branches_is_a_feed_forward_layer() -> None:
    block, batch = GPSBlock(12, [None, None], norm="none").double(), example_batch()
    h, e, _ = block(batch.x, batch.edge_attr, batch)
    torch.testing.assert_close(h, batch.x + block.feed_forward(batch.x))
    assert e is batch.edge_attr


def test_dropout_after_local_layers_can_be_another() -> None:
    """With all of the others dropped out, the state and the local layer's message are left."""
    batch = example_batch((5, 4))
    local = GCN(12, 12)
    block = GPSBlock(12, [local, Transformer(12, 2)], dropout=1.0, local_dropout=0.0, norm="none").double()
    torch.testing.assert_close(block(batch.x, None, batch)[0], 2 * batch.x + local(batch.x, None, batch)[0])


def test_unknown_norm_is_refused() -> None:
    with pytest.raises(ValueError, match="'bacth', did you mean 'batch'"):
        GPSBlock(12, [], norm="bacth")


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_parameter_count_of_a_block(norm: str) -> None:
    """GatedGCN 5 d(d+1) + 4d, attention 4 d(d+1), three norms of 2d, feed-forward d-2d-d."""
    d = 12
    config = {"dim": d, "heads": 4, "act": "relu", "dropout": 0.0, "attn_dropout": 0.0, "norm": norm}
    block = block_of(config | {"local": "CustomGatedGCN", "global": "Transformer"})
    count = sum(parameter.numel() for parameter in block.parameters())
    assert count == 5 * d * (d + 1) + 4 * d + 4 * d * (d + 1) + 6 * d + 2 * d * (d + 1) + d * (2 * d + 1)
