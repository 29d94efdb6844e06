"""Our models against the authors' programs: outputs and gradients that those gave, see ``originals.py``."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

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


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exponential numbers by formula, for both sides."""

    def exponential(tensor: Tensor, lambd: float = 1.0) -> Tensor:
        with torch.no_grad():
            return tensor.copy_(1.05 + pattern("noise", tensor.shape, 1.0))

    monkeypatch.setattr(Tensor, "exponential_", exponential)


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize("learned", [False, True])
def test_co_gnn(learned: bool) -> None:
    """In training: the release draws in evaluation, too."""
    own = {"action_dim": 4, "temperature": 0.3}
    if learned:
        own = {"aggregate": "sum", "action_layers": 2, "action_dim": 4, "temperature": "null", "skip": "true"}
    settings = {f"gt__CoGNN__{key}": value for key, value in {**own, "layer_norm": str(learned).lower()}.items()}
    model = configured("nodes/co-gnn-roman-empire", gnn__dim_inner=8, gnn__layers_mp=2, gnn__dropout=0, **settings)
    rules = {
        r"^env_net\.0": "lin_in",
        r"^env_net\.1": "layers.0",
        r"^env_net\.2": "layers.1",
        r"^env_net\.3": "head.mlp.lin.0",
        "^in_act_net.net": "listens.layers",
        "^out_act_net.net": "broadcasts.layers",
        "^hidden_layer_norm": "norm",
        r"^temp_model\.linear_model\.0": "lin_temperature",
    }
    recorded = read("co_gnn_learned" if learned else "co_gnn")
    compare(recorded, "train", model, on_one_graph, lambda weights: renamed(weights, rules))


@MODES
@pytest.mark.parametrize("base", ["mono", "cheb"])
def test_polyformer(mode: str, base: str) -> None:
    recorded = read(f"polyformer_{base}")
    own = recorded["arguments"]
    settings = {"degree": own["K"], "num_heads": own["n_head"], "decay": own["q"], "expand": own["multi"]}
    settings |= {"base": base, "ffn_dim": own["d_ffn"], "block_dropout": 0}
    model = configured(
        "nodes/polyformer-citeseer",
        gnn__dim_inner=8,
        gnn__layers_mp=own["nlayer"],
        gnn__dropout=0,
        **{f"gt__PolyFormer__{key}": value for key, value in settings.items()},
    )
    rules = {
        r"^attn\.": "layers.",
        r"attnmodule\.W_Q": "attention.query",
        r"attnmodule\.W_K": "attention.key",
        r"attnmodule\.bias_scale": "attention.scale",
        "attnmodule": "attention",
        r"ffnmodule\.ffn_norm": "norm",
        r"ffnmodule\.ffn_net\.lin1\.": "feed_forward.lin_in.",
        r"ffnmodule\.ffn_net\.lin2\.": "feed_forward.lin_out.",
        r"^lin1\.bias": "bias",
        r"^lin1\.weight": "lin_in.weight",
        r"^lin2": "lin",
        r"^lin3": "head.mlp.lin.0",
    }

    def ours(weights: Weights) -> dict[str, Tensor]:
        state = renamed(weights, rules, "token_wise")
        for layer in range(own["nlayer"]):
            for part in (0, 2):
                names = [f"attn.{layer}.attnmodule.token_wise_network.{k}.{part}" for k in range(own["K"] + 1)]
                networks = f"layers.{layer}.attention.networks.{part}"
                state[f"{networks}.weight"] = torch.stack([weights[f"{name}.weight"].t() for name in names])
                state[f"{networks}.bias"] = torch.stack([weights[f"{name}.bias"] for name in names]).unsqueeze(1)
            state[f"layers.{layer}.attention.decay"] = torch.arange(1.0, own["K"] + 2).double().pow(-own["q"])
        return state

    compare(recorded, mode, model, on_one_graph, ours)


def test_gred() -> None:
    """Recorded with the exact GELU, and with LayerNorm's epsilon of here."""
    own = {"hops": 2, "state_dim": 5, "expand": 2, "dropout": 0}
    settings = {f"gt__GRED__{key}": value for key, value in own.items()}
    width = {"gnn__dim_inner": 8, "gnn__layers_mp": 2}
    model = configured("gnnbench/gred-mnist", task="graph", **width, **settings)
    rules = {
        r"^Dense_0": "encoder.features.lin",
        r"^Dense_1": "lin_in",
        r"^Dense_2": "head.mlp.lin.0",
        r"^GRED_": "layers.",
        r"MLP_0\.LayerNorm_0": "norm_shells",
        r"MLP_0\.Dense_0": "mlp.0",
        r"MLP_0\.Dense_1": "mlp.2",
        r"LRU_0\.LayerNorm_0": "norm",
        r"LRU_0\.Dense_0": "lin",
        r"LRU_0\.Dense_1": "gate",
        r"LRU_0\.(nu|theta|gamma)_log": r"recurrence.\1",
        r"\.(kernel|scale)$": ".weight",
    }

    def ours(weights: Weights) -> dict[str, Tensor]:
        state = renamed({n: v.t() if "kernel" in n else v for n, v in weights.items()}, rules, r"\.[BC]_")
        for layer in (0, 1):
            for name, part in (("recurrence.reads", "B"), ("writes", "C")):
                complex_parts = [weights[f"GRED_{layer}.LRU_0.{part}_{kind}"] for kind in ("re", "im")]
                state[f"layers.{layer}.{name}"] = torch.stack(complex_parts)
        return state

    graphs = ["seven", "star"]
    compare(read("gred"), "eval", model, lambda m, i: m(batch_of(graphs, x=i["x"], pairs=distances(graphs))), ours)


@MODES
@pytest.mark.parametrize("layer", ["gcn", "sage", "gat"])
def test_tuned_gnn(mode: str, layer: str) -> None:
    recorded = read(f"tuned_{layer}")
    own = recorded["arguments"]
    settings = {"residual": own.get("res", False), "layer_norm": own.get("ln", False)}
    settings |= {"input_map": own.get("pre_linear", False), "jump": "sum" if own.get("jk") else "last"}
    model = configured(
        "nodes/tuned-gat-cora",
        gnn__layer_type={"gcn": "GCN", "sage": "SAGE", "gat": "GAT"}[layer],
        gnn__layers_mp=own["local_layers"],
        gnn__dim_inner=8,
        gnn__dropout=0,
        gnn__batchnorm=str(own.get("bn", False)).lower(),
        **{f"gt__TunedGNN__{key}": str(value).lower() for key, value in settings.items()},
    )
    rules = {
        "^pred_local": "head.mlp.lin.0",
        r"^local_convs\.": "layers.",
        r"^lins\.": "residuals.",
        r"^(bns|lns)\.": "norms.",
        "att_src": "att_source",
        "att_dst": "att_target",
        r"\.lin_l\.": ".lin_neighbor.",
        r"\.lin_r\.": ".lin_self.",
    }
    # The release owns maps and norms that it does not read.
    unread = [(own.get("pre_linear"), "^lin_in"), (own.get("res"), r"^lins\.")]
    unread += [(own.get("ln"), r"^lns\."), (own.get("bn"), r"^bns\.")]
    drop = "|".join([name for read_there, name in unread if not read_there])
    compare(recorded, mode, model, on_one_graph, lambda weights: renamed(weights, rules, drop))


@MODES
def test_glognn(mode: str) -> None:
    own = {"alpha": 0.5, "beta": 2.0, "gamma": 0.3, "delta": 0.6, "nodes": 7, "norm_layers": 2, "orders": 3}
    settings = {f"gt__GloGNN__{key}": value for key, value in own.items()}
    model = configured("nodes/glognn-cora", gnn__dim_inner=8, gt__dim_hidden=8, gnn__dropout=0, **settings)
    rules = {
        "^fc1": "lin",
        "^fc2": "head.mlp.lin.0",
        "^fc3": "rows",
        "^orders_weight$": "rounds.order_weights",
    }

    def ours(weights: Weights) -> dict[str, Tensor]:
        state = renamed(weights, rules, "orders_weight_matrix|diag_weight")
        state["rows.weight"] = state["rows.weight"].t()
        state["rounds.order_weights"] = state["rounds.order_weights"].squeeze(1)
        return state

    compare(read("glognn"), mode, model, lambda m, i: on_one_graph(m, i).log_softmax(1), ours)
