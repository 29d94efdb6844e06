"""Layers of Transformers, and the model of SAT, against those of the authors' programs, see ``originals.py``."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench.layers.blocks.egt import STATES, EGTLayer
from graphbench.layers.blocks.sat import SATLayer
from tests.models.originals import MODES, Weights, batch_of, compare, configured, read, renamed


def towers(weights: Weights, name: str, count: int) -> dict[str, Tensor]:
    """Maps of towers, one after the other in the original, as a grouped one."""
    maps = [[weights[f"{name}.{tower}.0.{part}"] for tower in range(count)] for part in ("weight", "bias")]
    return {"weight": torch.stack([each.t() for each in maps[0]]), "bias": torch.stack(maps[1]).unsqueeze(1)}


SAT = {
    r"self_attn\.structure_extractor\.gcn\.": "structure.layers.",
    r"self_attn\.structure_extractor\.bn": "structure.norm",
    r"self_attn\.structure_extractor\.out_proj": "structure.out",
    r"self_attn\.to_qk": "qk",
    r"self_attn\.to_v": "v",
    r"self_attn\.out_proj": "out",
    "linear1": "feed_forward.lin_in",
    "linear2": "feed_forward.lin_out",
    "norm1": "norm_attention",
    "norm2": "norm_ffn",
    r"\.linear\.": ".lin.",
    r"\.root_emb\.weight": ".root",
}


@MODES
@pytest.mark.parametrize("inner", ["gcn", "gcn_edges", "pna"])
def test_sat(mode: str, inner: str) -> None:
    recorded = read(f"sat_{inner}")
    own = recorded["arguments"]
    gnn_type = {"gcn": "GCN", "gcn_edges": "OGBGCN", "pna": "PNAUnscaled"}[inner]
    norm = "batch" if own["batch_norm"] else "layer"
    layer = SATLayer(8, own["nhead"], dim_edge=4, gnn_type=gnn_type, hops=own["k_hop"], norm=norm, towers=4)
    rules = SAT | {"edge_encoder": "edge_lin" if inner == "pna" else "lin_edge"}
    rules |= {r"(layers\.\d)\.lin\.": r"\1.lin_out."} if inner == "pna" else {}

    def ours(weights: Weights) -> dict[str, Tensor]:
        state = renamed(weights, rules, "aggr_module|pre_nns|post_nns")
        key, query = state["qk.weight"].chunk(2)
        state["qk.weight"] = torch.cat([query, key])
        for place in range(own["k_hop"] if inner == "pna" else 0):
            for part in ("pre", "post"):
                theirs = f"self_attn.structure_extractor.gcn.{place}.{part}_nns"
                for name, value in towers(weights, theirs, 4).items():
                    state[f"structure.layers.{place}.{part}.{name}"] = value
        return state

    def call(layer: Any, inputs: dict[str, Tensor]) -> Tensor:
        out: Tensor = layer(inputs["h"], inputs.get("e"), batch_of(own["graphs"]))[0]
        return out

    compare(recorded, mode, layer, call, ours)


@MODES
def test_the_model_of_sat(mode: str) -> None:
    """Encoders, two layers with batch norm, mean and two maps, as the configurations for graphs build them."""
    recorded = read("sat_model")
    own = recorded["arguments"]
    model = configured(
        "tu/sat-nci1",
        task="graph",
        posenc_RWSE__kernel__times_func="range(1,4)",
        posenc_RWSE__dim_pe=8,
        gt__layers=own["num_layers"],
        gt__n_heads=own["num_heads"],
        gt__dim_hidden=8,
        gt__dropout=0,
        gnn__dim_inner=8,
    )
    rules = {
        "^embedding_abs_pe": "encoder.positional.RWSE.lin",
        r"^embedding\.": "encoder.features.lin.",
        r"^encoder\.layers": "layers",
        r"^classifier\.0": "head.lin.0",
        r"^classifier\.2": "head.lin.1",
    }

    def ours(weights: Weights) -> dict[str, Tensor]:
        state = renamed(weights, rules | SAT)
        for layer in range(own["num_layers"]):
            key, query = state[f"layers.{layer}.qk.weight"].chunk(2)
            state[f"layers.{layer}.qk.weight"] = torch.cat([query, key])
        return state | {"encoder.features.lin.bias": torch.zeros(8, dtype=torch.float64)}

    def call(model: Any, inputs: dict[str, Tensor]) -> Tensor:
        out: Tensor = model(batch_of(own["graphs"], x=inputs["x"], pe={"RWSE.landing": inputs["walks"]}))
        return out

    compare(recorded, mode, model, call, ours)


@pytest.mark.parametrize("name", ["egt", "egt_unscaled"])
def test_egt(name: str) -> None:
    """New states of nodes and pairs."""
    recorded = read(name)
    own = recorded["arguments"]
    layer = EGTLayer(8, own["num_heads"], dim_edge=4, expansion=own["ffn_multiplier"], scale_degree=own["scale_degree"])
    rules = {
        "mha_ln_h": "norm_nodes",
        "mha_ln_e": "norm_pairs",
        "lin_E": "scores",
        "lin_G": "gates",
        "lin_QKV": "qkv",
        "lin_O_h": "out_nodes",
        "lin_O_e": "out_pairs",
        "ffn_ln_h": "norm_ffn_nodes",
        "ffn_ln_e": "norm_ffn_pairs",
        "lin_W_h_1": "ffn_nodes.lin_in",
        "lin_W_h_2": "ffn_nodes.lin_out",
        "lin_W_e_1": "ffn_pairs.lin_in",
        "lin_W_e_2": "ffn_pairs.lin_out",
    }

    def ours(weights: Weights) -> dict[str, Tensor]:
        state = renamed(weights, rules)
        for part in ("weight", "bias"):  # heads are the last dimension there
            packed = state[f"qkv.{part}"].unflatten(0, (3, -1, own["num_heads"]))
            state[f"qkv.{part}"] = packed.transpose(1, 2).flatten(0, 2)
        out = state["out_nodes.weight"].unflatten(1, (-1, own["num_heads"]))
        state["out_nodes.weight"] = out.transpose(1, 2).flatten(1)
        return state | {"hop_emb.weight": torch.zeros(19, 4, dtype=torch.float64)}

    def call(layer: Any, inputs: dict[str, Tensor]) -> Tensor:
        batch = batch_of(["seven"]).with_state(edge_states={STATES: inputs["e"].flatten(0, 1)})
        h, _, batch = layer(inputs["h"], None, batch)
        return torch.cat([h.flatten(), batch.state.edge_states[STATES].flatten()])

    compare(recorded, "train", layer, call, ours)


def test_pairs_left_out_have_no_weight() -> None:
    """EGT's random masking: of one pair per query and head, 60 % are left out; the states of pairs see none of it."""
    torch.manual_seed(0)
    masked, whole = EGTLayer(8, 2, dim_edge=4, attn_maskout=0.6), EGTLayer(8, 2, dim_edge=4)
    whole.load_state_dict(masked.state_dict())
    score = torch.randn(4000, 2)
    lowered = masked._masked(score)
    left = lowered < -1e8
    assert abs(left.double().mean().item() - 0.6) < 0.05  # 8,000 numbers: 9 deviations
    assert torch.equal(lowered[~left], score[~left])
    batch = batch_of(["seven"]).with_state(edge_states={STATES: torch.randn(49, 4)})
    h = torch.randn(7, 8)
    found, expected = (layer(h, None, batch) for layer in (masked, whole))
    assert torch.equal(found[2].state.edge_states[STATES], expected[2].state.edge_states[STATES])
    assert not torch.equal(found[0], expected[0])
    assert torch.equal(masked.eval()(h, None, batch)[0], whole.eval()(h, None, batch)[0])
