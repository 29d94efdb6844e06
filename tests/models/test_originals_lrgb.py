"""Methods for long-range graphs against the authors' programs, see ``originals.py``."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphbench import registry
from graphbench.encoders.compose import NodeEncoder
from graphbench.encoders.positional.rrwp import RRWP
from graphbench.layers.attention.graph_mamba import GraphMamba
from graphbench.layers.blocks.grit import STATES, GritTransformerLayer
from graphbench.layers.gps import GPSBlock
from graphbench.layers.local.gated_gcn import CustomGatedGCN
from graphbench.models.drew import DRew
from graphbench.models.pre_layers import LayerSettings
from tests.models.originals import (
    MODES,
    NODES,
    Weights,
    batch_of,
    compare,
    distances,
    edge_index,
    pattern,
    read,
    renamed,
)

GATED_GCN = {
    r"\.A\.": ".lin_self.",
    r"\.B\.": ".lin_neighbor.",
    r"\.C\.": ".gate_edge.",
    r"\.D\.": ".gate_target.",
    r"\.E\.": ".gate_source.",
    "bn_node_x": "node_norm",
    "bn_edge_e": "edge_norm",
}


@pytest.mark.parametrize(("name", "mode"), [("drew", "eval"), ("drew", "train"), ("drew_plain", "train")])
def test_drew(name: str, mode: str) -> None:
    """One graph has no nodes as far apart as the other; states are read that are up to three layers old, and none."""
    recorded = read(name)
    own = recorded["arguments"]
    arguments = {
        "encoder": NodeEncoder(None, {}, 6, batch_norm=False),
        "dim_encoded": 6,
        "dim": 6,
        "layers": own["layers"],
        "head": lambda _: lambda states, _: states,
        "post": LayerSettings(batchnorm=own["batchnorm"], l2norm=own["l2norm"]),
        "hops": own["hops"],
        "nu": None if own["nu"] < 0 else own["nu"],
    }
    parts = {r"lin\.weight": "weight", r"model\.bias": "bias"}
    parts |= {rf"post_layer\.0\.{part}": f"norm.{part}" for part in ("weight", "bias", "running_mean", "running_var")}

    def ours(weights: Weights) -> dict[str, Tensor]:
        state = {}
        for t in range(own["layers"]):
            for theirs, part in parts.items():
                # by k, in the order in which the original made them
                rows = [value for name, value in weights.items() if re.search(rf", t={t}\..*{theirs}$", name)]
                if rows:
                    state[f"layers.{t}.{part}"] = torch.cat(rows) if "norm" in part else torch.stack(rows)
            state[f"layers.{t}.weight"] = state[f"layers.{t}.weight"].transpose(1, 2)
        return state

    batch = batch_of(own["graphs"], pairs=distances(own["graphs"]))
    compare(
        recorded,
        mode,
        registry.construct(DRew, arguments),
        lambda model, inputs: model(batch.replace(x=inputs["x"])),
        ours,
    )


@MODES
def test_graph_mamba(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes and edges of a block with GatedGCN. The noise of the degrees is given in training; evaluation has none."""
    monkeypatch.setattr(torch, "rand_like", lambda x: 0.5 + pattern("noise", x.shape, 0.5).to(x.dtype))
    recorded = read("graph_mamba")
    block = GPSBlock(8, [CustomGatedGCN(8, 8, dim_edge=8), GraphMamba(8)])
    rules = {
        "local_model": "branches.0.part",
        **GATED_GCN,
        r"self_attn\.": "branches.1.part.mamba.",
        "norm1_local": "branches.0.norm",
        "norm1_attn": "branches.1.norm",
        "norm2": "norm_out",
        r"ff_linear1\.": "feed_forward.lin_in.",
        r"ff_linear2\.": "feed_forward.lin_out.",
        "in_proj": "lin_in",
        "x_proj": "lin_x",
        "dt_proj": "lin_delta",
        "out_proj": "lin_out",
        r"conv1d\.weight": "kernel",
        r"conv1d\.bias": "bias",
        "A_log": "log_rate",
        r"mamba\.D$": "mamba.skip",
    }

    def ours(weights: Weights) -> dict[str, Tensor]:
        state = renamed(weights, rules)
        state["branches.1.part.mamba.kernel"] = state["branches.1.part.mamba.kernel"].squeeze(1)
        return state

    def call(block: GPSBlock, inputs: dict[str, Tensor]) -> Tensor:
        h, e, _ = block(inputs["h"], inputs["e"], batch_of(recorded["arguments"]["graphs"]))
        assert e is not None
        return torch.cat([h.flatten(), e.flatten()])

    compare(recorded, mode, block, call, ours)


class GRIT(nn.Module):
    """The encoder of random walks and two layers."""

    def __init__(self, ksteps: int, **own: Any) -> None:
        super().__init__()
        self.encoder = RRWP(8, ksteps=ksteps)
        self.layers = nn.ModuleList(GritTransformerLayer(8, 2, **own) for _ in range(2))

    def forward(self, h: Tensor, e: Tensor, graphs: list[str]) -> Tensor:
        """States of the nodes, and one number of each pair."""
        batch = batch_of(graphs)
        powers = [self.powers(graph) for graph in graphs]
        h, batch = self.encoder(h, batch.replace(pair_pe={"RRWP.powers": torch.cat(powers)}))
        for layer in self.layers:
            h, _, batch = layer(h, e, batch)
        return torch.cat([h.flatten(), batch.state.edge_states[STATES] @ pattern("pairs", (8,))])

    def powers(self, graph: str) -> Tensor:
        """(n^2, K) of one graph: I, P, P^2, .., in float64, which the transform does not keep."""
        walk = torch.zeros(NODES[graph], NODES[graph], dtype=torch.float64)
        walk[tuple(edge_index([graph]))] = 1
        walk = walk / walk.sum(1, keepdim=True)
        return torch.stack([walk.matrix_power(k) for k in range(self.encoder.ksteps)], dim=2).flatten(0, 1)


@pytest.mark.parametrize(("name", "mode"), [("grit", "eval"), ("grit", "train"), ("grit_layer_norm", "train")])
def test_grit(name: str, mode: str) -> None:
    """Scores that are clamped are among them; the second case has no map of pair states and no degrees."""
    recorded = read(name)
    own = recorded["arguments"]
    norm = "batch" if own["batch_norm"] else "layer"
    settings = {key: own[key] for key in ("clamp", "deg_scaler", "use_bias", "O_e")}
    model = GRIT(own["walk_length"], norm=norm, **settings)
    rules = {
        r"^node\.fc": "encoder.nodes",
        r"^edge\.fc": "encoder.pairs",
        **{rf"attention\.{part}\.": f"{part.lower()}." for part in "QKEV"},
        r"attention\.Aw": "score",
        r"attention\.VeRow": "pair_values",
        "deg_coef": "degree_scale",
        r"O_h\.": "out_nodes.",
        r"O_e\.": "out_pairs.",
        r"(batch|layer)_norm1_h": "norm_attention",
        r"(batch|layer)_norm2_h": "norm_ffn",
        r"(batch|layer)_norm1_e": "norm_pairs",
        r"FFN_h_layer1\.": "feed_forward.lin_in.",
        r"FFN_h_layer2\.": "feed_forward.lin_out.",
    }
    compare(
        recorded,
        mode,
        model,
        lambda model, inputs: model(inputs["h"], inputs["e"], own["graphs"]),
        lambda weights: renamed(weights, rules),
    )


@pytest.mark.parametrize("name", ["gcn", "gcne", "gine", "gatedgcn"])
def test_gnn_plus(name: str) -> None:
    """Two layers with feed-forward networks, of which the second adds the old states."""
    recorded = read(f"gnn_plus_{name}")
    block = registry.lookup("layers/blocks", name)
    settings = {"dim": 6, "dim_edge": 6, "ffn": True}
    layers = nn.ModuleList(registry.construct(block, settings | {"residual": residual}) for residual in (False, True))
    rules = {
        "bn_node_x": "norm",
        "norm1_local": "norm_in",
        "norm2": "norm_out",
        r"ff_linear1\.": "feed_forward.lin_in.",
        r"ff_linear2\.": "feed_forward.lin_out.",
        r"model\.": "conv.",
        r"conv\.nn": "conv.mlp",
    }
    if name == "gatedgcn":
        inner = {theirs: f".conv{value}" for theirs, value in GATED_GCN.items() if value.startswith(".")}
        rules |= inner | {"bn_edge_e": "conv.edge_norm"}
        rules["bn_node_x"] = "conv.node_norm"

    class Stack(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = layers

        def forward(self, h: Tensor, e: Tensor) -> Tensor:
            batch = batch_of(recorded["arguments"]["graphs"])
            for layer in self.layers:
                h, e, batch = layer(h, e, batch)
            return torch.cat([h.flatten(), e.flatten()]) if name == "gatedgcn" else h

    def ours(weights: Weights) -> dict[str, Tensor]:
        return {f"layers.{key}": value for key, value in renamed(weights, rules).items()}

    compare(recorded, "train", Stack(), lambda model, inputs: model(inputs["h"], inputs["e"]), ours)
