"""SGFormer's release: the models of its node tables give our outputs and gradients, see ``originals.py``."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench.layers.attention import nodeformer
from tests.models.originals import (
    MODES,
    Weights,
    batch_of,
    compare,
    configured,
    distances,
    on_one_graph,
    pattern,
    read,
    renamed,
)

TORCH_ENCODER = {
    r"self_attn\.in_proj_": "attention.qkv.",
    r"self_attn\.out_proj\.": "attention.out.",
    r"linear1\.": "feed_forward.lin_in.",
    r"linear2\.": "feed_forward.lin_out.",
    r"norm1\.": "norm_attention.",
    r"norm2\.": "norm_ffn.",
}


@MODES
def test_graphtrans_of_sgformer(mode: str) -> None:
    model = configured(
        "nodes/graphtrans-small-cora",
        gnn__dim_inner=8,
        gnn__dropout=0,
        gt__GraphTrans__transformer_layers=2,
        gt__GraphTrans__transformer_heads=2,
        gt__GraphTrans__transformer_ffn_dim=16,
        gt__GraphTrans__transformer_dropout=0,
    )
    rules = {
        r"^gnn\.convs": "stack.layers",
        r"^gnn\.bns": "stack.norms",
        r"^trans\.transformer\.layers": "layers",
        r"^trans\.gnn2transformer": "lin",
        r"^trans\.input_layernorm": "norm_in",
        r"^trans\.layer_norm": "norm_out",
        r"^trans\.output": "head.mlp.lin.0",
        **TORCH_ENCODER,
    }
    # The release registers the layer that it copies, too.
    compare(read("sgformer_graphtrans"), mode, model, on_one_graph, lambda w: renamed(w, rules, r"trans_layer"))


@MODES
@pytest.mark.parametrize("norm", [False, True])
def test_gps_of_sgformer(mode: str, norm: bool) -> None:
    model = configured(
        "nodes/gps-performer-cora",
        gnn__dim_inner=8,
        gnn__dropout=0,
        gt__dim_hidden=8,
        gt__dropout=0,
        gt__n_heads=2,
        gt__attn_dropout=0,
        gt__batch_norm=norm,
    )
    rules = {
        "^pre_mp": "pre_mp.0.lin",
        "^post_mp": "head.mlp.lin.0",
        "local_model": "branches.0.part",
        r"self_attn\.to_": "branches.1.part.",
        r"self_attn\.fast_attention\.projection_matrix": "branches.1.part.projection",
        "norm1_local": "branches.0.norm",
        "norm1_attn": "branches.1.norm",
        "norm2": "norm_out",
        r"ff_linear1\.": "feed_forward.lin_in.",
        r"ff_linear2\.": "feed_forward.lin_out.",
    }
    compare(read("sgformer_gps_bn" if norm else "sgformer_gps"), mode, model, on_one_graph, lambda w: renamed(w, rules))


BRANCH = {
    r"^convs\.": "attention_branch.layers.",
    r"^bns\.": "attention_branch.norms.",
    r"^fcs\.0": "attention_branch.lin_in",
    r"^fcs\.1": "head.mlp.lin.0",
    r"\.W([qkv])\.": r".\1.",
    r"\.Wo\.": ".out.",
    r"\.b$": ".bias",
}


@MODES
@pytest.mark.parametrize("weighted", [False, True])
def test_difformer_of_sgformer(mode: str, weighted: bool) -> None:
    model = configured(
        "nodes/difformer-cora-raw",
        gnn__dim_inner=8,
        gt__dim_hidden=8,
        gt__layers=2,
        gt__n_heads=1 if weighted else 2,
        gt__TwoBranch__alpha=0.3,
        gt__TwoBranch__attention_dropout=0,
        gt__DIFFormer__self_loops="false",
        gt__DIFFormer__use_weight=not weighted,
        gt__DIFFormer__graph_weight=0.7 if weighted else "null",
    )
    recorded = read("sgformer_difformer_weighted" if weighted else "sgformer_difformer")
    compare(recorded, mode, model, on_one_graph, lambda weights: renamed(weights, BRANCH))


def node_former(weights: Weights) -> dict[str, Tensor]:
    directions = pattern("projection", (5, 8), 2.0)
    projections = {f"attention_branch.layers.{layer}.projection": directions for layer in (0, 1)}
    return {**renamed(weights, BRANCH), **projections}


NODEFORMER = {
    "gnn__dim_inner": 8,
    "gt__dim_hidden": 8,
    "gt__layers": 2,
    "gt__n_heads": 2,
    "gt__TwoBranch__attention_residual": "sum",
    "gt__NodeFormer__nb_features": 5,
    "gt__NodeFormer__tau": 1,
}


def test_nodeformer_of_sgformer() -> None:
    """In evaluation: training draws directions."""
    model = configured("nodes/nodeformer-cora-raw", **NODEFORMER)
    compare(read("sgformer_nodeformer"), "eval", model, on_one_graph, node_former)


def test_edge_term_of_nodeformer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lambda is ``edge_loss`` times the number of layers, and it is subtracted from the loss."""
    monkeypatch.setattr(nodeformer, "directions", lambda count, width, device=None: pattern("projection", (5, 8), 2.0))
    own = {"gt__NodeFormer__gumbel_samples": 0, "gt__NodeFormer__edge_loss": 0.5}
    model = configured("nodes/nodeformer-cora-raw", **NODEFORMER, **own)

    def edge_terms(call: Any, inputs: dict[str, Tensor]) -> Tensor:
        on_one_graph(call, inputs)
        return -torch.stack([layer.auxiliary_loss for layer in model.attention_branch.layers]).sum().reshape(1)

    compare(read("sgformer_nodeformer_loss"), "train", model, edge_terms, node_former)


@MODES
def test_graphormer_of_sgformer(mode: str) -> None:
    width = {"gnn__dim_inner": 8, "graphormer__embed_dim": 8, "graphormer__num_layers": 2, "graphormer__num_heads": 2}
    rates = {f"graphormer__{name}": 0 for name in ("dropout", "attention_dropout", "mlp_dropout", "input_dropout")}
    model = configured("nodes/graphormer-smaller-cora", **width, **rates)
    rules = {
        r"^graph_encoder\.": "",
        r"^graph_node_feature\.(in|out)_degree_encoder": r"encoder.contextual.GraphormerBias.\1_degree_emb",
        r"self_attn\.out_proj": "attention.out",
        "self_attn_layer_norm": "norm_attention",
        "final_layer_norm": "norm_ffn",
        r"fc1\.": "feed_forward.lin_in.",
        r"fc2\.": "feed_forward.lin_out.",
        "^lm_head_transform_weight": "head.hidden",
        "^layer_norm": "head.norm",
        r"^fc\.": "head.lin.",
    }
    unused = r"^masked_lm_pooler|graph_token|^graph_encoder\.final_layer_norm|_proj|atom_encoder|spatial_pos"

    def ours(weights: Weights) -> dict[str, Tensor]:
        state = renamed({n: v for n, v in weights.items() if "out_proj" in n or not re.search(unused, n)}, rules)
        for layer in (0, 1):
            for kind in ("weight", "bias"):
                parts = [weights[f"graph_encoder.layers.{layer}.self_attn.{each}_proj.{kind}"] for each in "qkv"]
                state[f"layers.{layer}.attention.qkv.{kind}"] = torch.cat(parts)
        table = weights["graph_encoder.graph_node_feature.atom_encoder.weight"]
        state["encoder.features.lin.weight"] = (table[2:13:2] - table[1:12:2]).t()
        state["encoder.features.lin.bias"] = table[1:12:2].sum(0)
        bias = "encoder.contextual.GraphormerBias.bias"
        state[f"{bias}.spatial_emb"] = weights["graph_encoder.graph_attn_bias.spatial_pos_encoder.weight"][1:22]
        state[f"{bias}.edge_type_emb"], state[f"{bias}.edge_distance"] = torch.zeros(0, 2), torch.zeros(20, 2, 2)
        return state

    batch = batch_of(["seven"], x=(pattern("bits", (7, 6)) > 0).double(), pairs=distances(["seven"]))
    compare(read("sgformer_graphormer"), mode, model, lambda call, _: call(batch), ours)
