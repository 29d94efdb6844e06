"""Transformers on sequences of tokens against the authors' programs, see ``originals.py``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from graphbench.models.ans_gt import sequences
from tests.models.originals import MODES, Weights, batch_of, compare, configured, on_one_graph, read, renamed

BLOCK = {
    r"self_attention\.output_layer\.": "attention.out.",
    r"ffn\.layer1\.": "feed_forward.lin_in.",
    r"ffn\.layer2\.": "feed_forward.lin_out.",
}


def packed(state: dict[str, Tensor], layers: int, prefix: str) -> dict[str, Tensor]:
    """Maps of queries, keys and values in one."""
    for layer in range(layers):
        for part in ("weight", "bias"):
            names = [f"{prefix}{layer}.self_attention.linear_{each}.{part}" for each in "qkv"]
            state[f"{prefix}{layer}.attention.qkv.{part}"] = torch.cat([state.pop(name) for name in names])
    return state


@MODES
def test_ans_gt(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the super-nodes and the sequences, one per node, that its preparation gave; the release repeats nodes."""
    recorded = read("ans_gt")
    own = recorded["arguments"]
    drawn = torch.tensor(own["sequences"])[:, None, 1:]
    settings = {"num_heads": own["num_heads"], "ffn_dim": own["ffn_dim"], "global_nodes": own["num_global_node"]}
    settings |= {"length": drawn.shape[2], "samples": 1, "input_dropout": 0, "attention_dropout": 0}
    model = configured(
        "nodes/ans-gt-cora",
        gnn__dim_inner=8,
        gnn__dropout=0,
        gt__dim_hidden=8,
        gt__layers=own["n_layers"],
        **{f"gt__ANSGT__{key}": value for key, value in settings.items()},
    )
    monkeypatch.setattr(sequences, "coarsened", lambda batch, ratio: np.array(own["cluster"]))
    monkeypatch.setattr(
        sequences.Drawn,
        "round",
        lambda around, key, shares, settings: sequences.Drawn(around, key, drawn, torch.zeros(*drawn.shape, 4)),
    )
    rules = {
        "^node_encoder": "lin_in",
        "^layers": "blocks",
        "self_attention_norm": "norm",
        r"self_attention\.linear_bias": "lin_bias",
        r"ffn_norm": "norm_ffn",
        "^final_ln": "norm",
        "^downstream_out_proj": "head.mlp.lin.0",
        "^graph_token_virtual_distance": "global_encodings",
        "^graph_token": "global_tokens",
        **BLOCK,
    }

    def ours(weights: Weights) -> dict[str, Tensor]:
        state = packed(renamed(weights, rules, r"linear_bias\.bias"), own["n_layers"], "blocks.")
        return state | {f"bandit.{name}": torch.zeros(4, dtype=torch.float64) for name in ("log_weights", "reward")}

    def call(model: Any, inputs: dict[str, Tensor]) -> Tensor:
        return on_one_graph(model, inputs).log_softmax(1)

    compare(recorded, mode, model, call, ours)


@MODES
def test_nagphormer(mode: str) -> None:
    recorded = read("nagphormer")
    own = recorded["arguments"]
    settings = {"hops": own["hops"], "num_heads": own["num_heads"], "transformer_dropout": 0, "attention_dropout": 0}
    model = configured(
        "nodes/nagphormer-cora",
        dataset__node_encoder="false",
        posenc_LapPE__enable="false",
        gnn__dim_inner=8,
        gt__dim_hidden=8,
        gt__layers=own["n_layers"],
        **{f"gt__NAGphormer__{key}": value for key, value in settings.items()},
    )
    rules = {
        "^att_embeddings_nope": "lin_in",
        "self_attention_norm": "norm_attention",
        "ffn_norm": "norm_ffn",
        "^final_ln": "norm",
        "^attn_layer": "readout",
        "^out_proj": "lin_out",
        "^Linear1": "head.mlp.lin.0",
        **BLOCK,
    }

    def ours(weights: Weights) -> dict[str, Tensor]:
        return packed(renamed(weights, rules, r"attn_layer\.bias"), own["n_layers"], "layers.")

    compare(recorded, mode, model, lambda m, i: m(batch_of(["seven"], x=i["x"])).log_softmax(1), ours)
