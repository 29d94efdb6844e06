"""Layers of ``custom_gnn``: recorded layers of the re-tuned baselines, and GraphGPS's from their parts."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from graphbench.layers.blocks.convolution import GCNBlock, GINEBlock
from graphbench.layers.blocks.gated_gcn_conv import GatedGCNBlock
from tests.contract import CHECKS, Subject, check_corner_cases, example_batch, shaken
from tests.layers.recorded import batch_of, check_gradients, close, load

# (recorded, ours): GINE's second map follows activation and dropout.
INSIDE = (("mlp.0.", "conv.mlp.0."), ("mlp.1.", "conv.mlp.3."), ("eps", "conv.eps"), ("lin.", "conv.lin."))


def ours(name: str) -> str:
    if name == "bias":
        return "conv.bias"
    return next((own + name.removeprefix(recorded) for recorded, own in INSIDE if name.startswith(recorded)), name)


def block_of(name: str, config: dict[str, Any], edge_residual: bool | None = True) -> torch.nn.Module:
    dim = config["dim"]
    shared = {"dropout": config["dropout"], "act": config["act"], "residual": config["residual"]}
    if name == "GatedGCN":
        return GatedGCNBlock(dim, dim_edge=dim, edge_residual=edge_residual, **shared)
    return GCNBlock(dim, **shared) if name == "GCN" else GINEBlock(dim, dim_edge=dim, dropout_inside=True, **shared)


@pytest.mark.parametrize(
    "name",
    ["GCN_gelu_nores", "GCN_relu_res", "GINE_gelu_nores", "GINE_relu_res", "GatedGCN_gelu_res", "GatedGCN_relu_nores"],
)
def test_equals_the_retuned_baselines(name: str, golden: Any) -> None:
    arrays = golden(f"lrgb/conv_{name}")
    block = load(block_of(name.split("_")[0], arrays["config"]), arrays, ours)
    batch = batch_of(arrays)
    h, e, same = block(batch.x, batch.edge_attr, batch)
    assert same is batch
    close(h, arrays["out/x"], "nodes")
    outputs = {"x": h}
    if "out/edge_attr" in arrays:
        close(e, arrays["out/edge_attr"], "edges")
        outputs["edge_attr"] = e
    else:
        assert e is batch.edge_attr
    check_gradients(block, batch, outputs, arrays, ours)


@pytest.mark.parametrize("name", ["gatedgcn_relu", "gatedgcn_gelu_nores"])
def test_gated_gcn_block_is_the_layer_of_graphgps(name: str, golden: Any) -> None:
    arrays = golden(f"graphgps/{name}")
    block, batch = load(block_of("GatedGCN", arrays["config"], None), arrays), batch_of(arrays)
    h, e, _ = block(batch.x, batch.edge_attr, batch)
    close(h, arrays["out/x"], "nodes")
    close(e, arrays["out/edge_attr"], "edges")


@pytest.mark.parametrize("residual", [True, False])
def test_edge_residual_follows_residual_unless_given(residual: bool) -> None:
    assert GatedGCNBlock(4, dim_edge=4, residual=residual).edge_residual is residual
    assert GatedGCNBlock(4, dim_edge=4, residual=residual, edge_residual=not residual).edge_residual is not residual
    assert not GatedGCNBlock(4, dim_edge=3, edge_residual=True).edge_residual


@pytest.mark.parametrize("residual", [True, False])
def test_gine_block_of_graphgps(residual: bool) -> None:
    """Activation after the MLP, then dropout, then the residual."""
    batch, block = example_batch(), GINEBlock(12, dim_edge=12, dropout=0.5, residual=residual).double()
    torch.manual_seed(3)
    h, e, _ = block(batch.x, batch.edge_attr, batch)
    torch.manual_seed(3)
    expected = block.dropout(block.conv(batch.x, batch.edge_attr, batch)[0].relu())
    torch.testing.assert_close(h, batch.x + expected if residual else expected)
    assert e is batch.edge_attr
    assert not any(type(part).__name__ == "Dropout" for part in block.conv.mlp)
    assert sum(each.numel() for each in block.parameters()) == 2 * 12 * 13


def test_dropout_inside_gine_is_in_two_places() -> None:
    block = GINEBlock(12, dim_edge=12, dropout=0.5, dropout_inside=True)
    batch, hidden = example_batch(dtype=torch.float32), []
    block.conv.mlp[3].register_forward_pre_hook(lambda _m, inputs: hidden.append(inputs[0]))
    out, _, _ = block(batch.x, batch.edge_attr, batch)
    assert 0.6 < (hidden[0] == 0).float().mean() < 0.9  # half of the rest after relu
    assert 0.35 < (out == 0).float().mean() < 0.65


@pytest.mark.parametrize("check", [*CHECKS, "corner_cases"])
@pytest.mark.parametrize("kind", [GCNBlock, GINEBlock, GatedGCNBlock])
def test_contract(kind: type, check: str) -> None:
    torch.manual_seed(0)
    arguments = {} if kind is GCNBlock else {"dim_edge": 12}
    block = shaken(kind(12, dropout=0.5 if check == "determinism" else 0.0, act="gelu", residual=True, **arguments))
    subject = Subject(
        block.double(),
        lambda module, batch: dict(zip("he", module(batch.x, batch.edge_attr, batch))),
        {"h": "node", "e": "edge"},
        {"h": 12, "e": 12},
    )
    if check == "corner_cases":
        check_corner_cases(subject)
    else:
        CHECKS[check](subject, example_batch())


@pytest.mark.parametrize("kind", [GINEBlock, GatedGCNBlock])
def test_missing_edge_states_are_named(kind: type) -> None:
    batch = example_batch()
    with pytest.raises(ValueError, match="needs edge states"):
        kind(12, dim_edge=12).double()(batch.x, None, batch)
