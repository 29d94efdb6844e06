"""GraphTrans, LGI-GT, ExpC and Polynormer against the authors' programs, see ``originals.py``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphbench import registry
from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.heads.graph import GraphHead
from graphbench.heads.node import NodeHead
from graphbench.layers.blocks.lgi_gt import LGIGTLayer
from graphbench.layers.local.expc import ExpC
from graphbench.layers.local.ogb import OGBGCN, OGBGIN
from graphbench.models.graph_trans import GraphTrans
from graphbench.models.polynormer import Polynormer
from tests.models.originals import MODES, Weights, batch_of, compare, on_one_graph, read, renamed


@MODES
@pytest.mark.parametrize("conv", ["gin", "gcn"])
def test_graphtrans(mode: str, conv: str) -> None:
    """With a virtual node, both ends of the stack and <CLS> (its molpcba), and with none of the first two (NCI1)."""
    recorded = read(f"graphtrans_{conv}")
    own = recorded["arguments"]
    local = {"gin": OGBGIN, "gcn": OGBGCN}[conv]
    arguments = {
        "encoder": NodeEncoder(None, {}, 8, batch_norm=False),
        "dim_encoded": 8,
        "edge_encoder": EdgeEncoder(None, {}, 8, batch_norm=False),
        "dim": 8,
        "layers": own["gnn_num_layer"],
        "local": lambda dim_in, dim_out: local(dim_in, dim_out, dim_edge=8),
        "head": lambda width: GraphHead(width, 3, pooling="mean", layers_post_mp=1),
        "virtual_node": own["gnn_virtual_node"],
        "jump": own["gnn_JK"],
        "transformer_layers": own["num_encoder_layers"],
        "transformer_heads": own["nhead"],
        "transformer_dim": own["d_model"],
        "transformer_ffn_dim": own["dim_feedforward"],
        "norm_input": True,
        "readout": "token",
    }
    rules = {
        r"^gnn_node\.convs": "stack.layers",
        r"^gnn_node\.batch_norms": "stack.norms",
        r"^gnn_node\.virtualnode_embedding\.weight": "stack.virtual",
        r"^gnn_node\.mlp_virtualnode_list": "stack.virtual_updates",
        "^gnn2transformer": "lin",
        r"^transformer_encoder\.transformer\.norm": "norm_out",
        r"^transformer_encoder\.transformer\.layers": "layers",
        r"^transformer_encoder\.norm_input": "norm_in",
        r"^graph_pred_linear\.": "head.mlp.lin.0.",
        r"self_attn\.in_proj_": "attention.qkv.",
        r"self_attn\.out_proj": "attention.out",
        r"linear1\.": "feed_forward.lin_in.",
        r"linear2\.": "feed_forward.lin_out.",
        r"norm1\.": "norm_attention.",
        r"norm2\.": "norm_ffn.",
        r"\.linear\.": ".lin.",
        r"\.root_emb\.weight": ".root",
    }

    def ours(weights: Weights) -> dict[str, Tensor]:
        state = renamed(weights, rules, "cls_embedding")
        return state | {"token": weights["transformer_encoder.cls_embedding"][0]}

    def call(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        prediction: Tensor = model(batch_of(own["graphs"], x=inputs["x"], edge_attr=inputs["e"]))
        return prediction

    compare(recorded, mode, registry.construct(GraphTrans, arguments), call, ours)


class LGIGT(nn.Module):
    """Layers of LGI-GT and a linear head on mean states."""

    def __init__(self, conv: Any) -> None:
        super().__init__()
        self.layers = nn.ModuleList(LGIGTLayer(8, 2, dim_edge=8, conv=conv) for _ in range(2))
        self.head = GraphHead(8, 3, pooling="mean", layers_post_mp=1)

    def forward(self, h: Tensor, e: Tensor, graphs: list[str]) -> Tensor:
        """(G, 3)."""
        batch = batch_of(graphs)
        for layer in self.layers:
            h, _, _ = layer(h, e, batch)
        prediction: Tensor = self.head(h, batch)
        return prediction


@MODES
@pytest.mark.parametrize("conv", ["gin", "gcn"])
def test_lgi_gt(mode: str, conv: str) -> None:
    recorded = read(f"lgi_gt_{conv}")
    rules = {
        r"^gconvs\.(\d)\.(edge_linear|edge_encoder)": r"layers.\1.lin_edge",
        r"^gconvs\.(\d)\.mlp": r"layers.\1.conv",
        r"^gconvs\.(\d)\.linear": r"layers.\1.conv.lin",
        r"^gconvs\.(\d)\.root_emb\.weight": r"layers.\1.conv.root",
        r"^middle_layers\.(\d)": r"layers.\1.norm_conv",
        r"^tlayers\.(\d)\.node_self_attention\.linear_attn_out": r"layers.\1.attention.out",
        r"^tlayers\.(\d)\.linear_out1": r"layers.\1.feed_forward.lin_in",
        r"^tlayers\.(\d)\.linear_out2": r"layers.\1.feed_forward.lin_out",
        r"^tlayers\.(\d)\.norm0": r"layers.\1.norm_attention",
        r"^tlayers\.(\d)\.norm1": r"layers.\1.norm_ffn",
        r"^predict_head\.0": "head.mlp.lin.0",
    }

    def ours(weights: Weights) -> dict[str, Tensor]:
        state = renamed(weights, rules, "linear_[qkv]")
        for layer in range(2):
            for part in ("weight", "bias"):
                names = [f"tlayers.{layer}.node_self_attention.linear_{each}.{part}" for each in "qkv"]
                state[f"layers.{layer}.attention.qkv.{part}"] = torch.cat([weights[name] for name in names])
        return state

    graphs = recorded["arguments"]["graphs"]
    compare(recorded, mode, LGIGT(conv.upper()), lambda m, i: m(i["x"], i["e"], graphs), ours)


def test_expc() -> None:
    recorded = read("expc")
    own = recorded["arguments"]
    layer = ExpC(8, 8, dim_edge=8, coefficients=own["num_aggr"])
    rules = {r"^aggr_mlp\.0": "expand", "^fea_mlp": "mlp"}
    batch = batch_of(own["graphs"])
    compare(recorded, "train", layer, lambda m, i: m(i["h"], i["e"], batch)[0], lambda weights: renamed(weights, rules))


@pytest.mark.parametrize("name", ["polynormer", "polynormer_bounded"])
def test_polynormer(name: str) -> None:
    """With the loops that its program adds, and without."""
    recorded = read(name)
    own = recorded["arguments"]
    arguments = {
        "encoder": NodeEncoder(None, {}, 6, batch_norm=False),
        "dim_encoded": 6,
        "dim": 8,
        "head": lambda width: NodeHead(width, 3, layers_post_mp=1),
        "local_layers": own["local_layers"],
        "global_layers": own["global_layers"],
        "num_heads": own["heads"],
        "self_loops": own["self_loops"],
        "beta": None if own["beta"] < 0 else own["beta"],
    }
    rules = {
        r"^global_attn\.(h|k|v)_lins\.(\d)": r"global_layers.\2.\1",
        r"^global_attn\.lns\.(\d)": r"global_layers.\1.norm",
        r"^h_lins\.(\d)": r"local_layers.\1.factor",
        r"^local_convs\.(\d)\.lin\.": r"local_layers.\1.value.",
        r"^local_convs\.(\d)\.att_src": r"local_layers.\1.att_source",
        r"^local_convs\.(\d)\.att_dst": r"local_layers.\1.att_target",
        r"^lins\.(\d)": r"local_layers.\1.lin",
        r"^lns\.(\d)": r"local_layers.\1.norm",
        "^ln": "norm",
        "^pred_global": "head.mlp.lin.0",
    }
    part = {"h": "factor", "k": "key", "v": "value"}

    def by_head(value: Tensor) -> Tensor:
        """Rows of a map, or entries of a vector, whose last factor are heads there and whose first are heads here."""
        return value.unflatten(0, (-1, own["heads"])).transpose(0, 1).flatten(0, 1)

    def ours(weights: Weights) -> dict[str, Tensor]:
        state = {}
        for key, value in renamed(weights, rules, r"betas|lin_out").items():
            if key.startswith("global_layers"):
                number, which, kind = key.split(".")[1:]
                state[f"global_layers.{number}.{part.get(which, which)}.{kind}"] = by_head(value)
            else:
                state[key] = value.squeeze(0) if "att_" in key else value
        for number in range(2):
            state[f"local_layers.{number}.gate.value"] = weights["betas"][number]
            state[f"global_layers.{number}.gate.value"] = by_head(weights["global_attn.betas"][number])
        # Common to all layers; what it gives is not permuted.
        state["global_layers.0.lin_out.weight"] = by_head(weights["global_attn.lin_out.weight"].t()).t()
        state["global_layers.0.lin_out.bias"] = weights["global_attn.lin_out.bias"]
        return state

    compare(recorded, "train", registry.construct(Polynormer, arguments), on_one_graph, ours)
