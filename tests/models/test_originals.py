"""Our models against the authors' programs: outputs and gradients that those gave, see ``originals.py``."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra
from torch import Tensor

from graphbench.config import load_config
from graphbench.factory.model import build_model
from graphbench.layers.attention import nodeformer
from graphbench.structures import DataInfo, PairBlocks
from tests.models.originals import Weights, batch_of, compare, edge_index, pattern, read, sizes
from tests.paths import ROOT

MODES = pytest.mark.parametrize("mode", ["eval", "train"])


def configured(name: str, task: str = "node", **overrides: Any) -> Any:
    """The model of a shipped configuration for classification, at the sizes of a recording."""
    pairs = [str(part) for key, value in overrides.items() for part in (key.replace("__", "."), value)]
    info = DataInfo(
        "original", task, "classification", node_in=6, edge_in=0, out_dim=3, metric="accuracy", maximize=True
    )
    return build_model(load_config(ROOT / f"configs/{name}.yaml", pairs), info)


def renamed(weights: Weights, rules: dict[str, str], drop: str = "$^") -> dict[str, Tensor]:
    """Weights under the names that regular expressions give them, without those that ``drop`` matches."""
    state = {}
    for name, value in weights.items():
        if re.search(drop, name):
            continue
        for rule, replacement in rules.items():
            name = re.sub(rule, replacement, name)
        state[name] = value
    return state


def on_one_graph(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    """Prediction for the nodes of one graph, from their features."""
    prediction: Tensor = model(batch_of(["seven"], x=inputs["x"]))
    return prediction


def distances(graphs: list[str]) -> PairBlocks:
    """Hops between all pairs of nodes of a graph."""
    blocks = []
    for graph in graphs:
        edges = edge_index([graph])
        hops = dijkstra(coo_array((torch.ones(edges.shape[1]), edges.numpy())), unweighted=True)
        blocks.append(torch.from_numpy(hops.astype("uint8")).reshape(-1))
    return PairBlocks(torch.cat(blocks), tuple(sizes(graphs)))


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


NODEFORMER = {"gt__layers": 2, "gt__n_heads": 2, "gt__NodeFormer__nb_features": 5, "gt__NodeFormer__tau": 1}


def test_nodeformer_of_sgformer() -> None:
    """In evaluation: training draws directions."""
    width = {"gnn__dim_inner": 8, "gt__dim_hidden": 8, "gt__TwoBranch__attention_residual": "sum"}
    model = configured("nodes/nodeformer-cora-raw", **width, **NODEFORMER)
    compare(read("sgformer_nodeformer"), "eval", model, on_one_graph, node_former)


def test_edge_term_of_nodeformer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lambda is ``edge_loss`` times the number of layers, and it is subtracted from the loss."""
    monkeypatch.setattr(nodeformer, "directions", lambda count, width, device=None: pattern("projection", (5, 8), 2.0))
    width = {"gnn__dim_inner": 8, "gt__dim_hidden": 8, "gt__TwoBranch__attention_residual": "sum"}
    own = {"gt__NodeFormer__gumbel_samples": 0, "gt__NodeFormer__edge_loss": 0.5}
    model = configured("nodes/nodeformer-cora-raw", **width, **NODEFORMER, **own)

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
