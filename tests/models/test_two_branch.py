"""The two-branch model against both models of the released SGFormer code, and its options one by one."""

from __future__ import annotations

import pytest
import torch

from graphbench import registry
from graphbench.encoders.compose import NodeEncoder
from graphbench.heads.node import NodeHead
from graphbench.layers.attention.sgformer import SGFormer
from graphbench.layers.local.gcn import GCN
from graphbench.models.branches import AttentionBranch, AttentionSettings, LocalBranch, LocalSettings
from graphbench.models.two_branch import TwoBranch
from graphbench.structures import GraphBatch, Ragged
from tests.models.recorded import close, load


def _single(x, edge_index):
    return GraphBatch(Ragged.from_sizes([len(x)]), edge_index, x=x)


TRANSCONV = [
    "large_1layer",
    "large_2layers_2heads",
    "medium_1layer",
    "medium_3layers_2heads_alpha",
    "medium_nobn_nores",
    "medium_noweight",
]


@pytest.mark.parametrize("name", TRANSCONV)
def test_attention_branch_equals_the_original(golden, name):
    recorded = golden(f"sgformer/transconv_{name}")
    config = recorded["config"]
    large = "large" in name
    branch = (
        AttentionBranch(
            config["dim_in"],
            config["dim"],
            [
                SGFormer(config["dim"], config["heads"], use_weight=config.get("use_weight", True))
                for _ in range(config["layers"])
            ],
            AttentionSettings(
                attention_norm=config.get("use_bn", True),
                attention_act=config.get("use_act", large),
                attention_residual="mean" if large else "mix" if config["use_residual"] else "none",
                alpha=config.get("alpha", 0.0),
            ),
            dropout=0.5,
        )
        .double()
        .eval()
    )
    unused = config.get("no_gradient", [])
    load(branch, recorded, lambda key: None if key in unused else key)
    x = recorded["in/x"].double().requires_grad_()
    z = branch(x, None, _single(x, torch.zeros(2, 0, dtype=torch.int64)))
    close(z, recorded["out/x"], "output")
    (z * recorded["in/grad_seed.x"]).sum().backward()
    close(x.grad, recorded["grad/in.x"], "x")
    for key, parameter in branch.named_parameters():
        close(parameter.grad, recorded[f"grad/{key}"], key)


def test_input_of_the_local_branch_can_be_dropped_out():
    branch = LocalBranch(6, 4, GCN, LocalSettings(local_layers=1, local_input_dropout=1.0))
    batch = _single(torch.randn(5, 6), torch.tensor([[0, 1], [1, 0]]))
    torch.testing.assert_close(branch(batch.x, None, batch), branch.layers[0].bias.expand(5, 4))
    assert branch.eval()(batch.x, None, batch).abs().sum() > 0


COMPLETE = [
    "large_amazon2m_flags",
    "large_arxiv_flags",
    "large_directed_cat_2heads",
    "medium_bn_weight_nores",
    "medium_cat_2layers_2heads_directed",
    "medium_chameleon_flags",
    "medium_cora_flags",
    "medium_residual_add",
]


def _complete(config, large):
    """Our arguments for the flags of the released code."""
    dim, dim_in = config["dim"], config["dim_in"]
    flags = config if large else {f"trans_{key}": value for key, value in config["trans"].items()}
    heads, use_weight = flags["trans_num_heads"], flags.get("trans_use_weight", True)
    if large:
        attention = AttentionSettings(
            attention_norm=flags.get("trans_use_bn", True),
            attention_residual="mean",
            attention_act=flags.get("trans_use_act", False),
        )
        local = LocalSettings(
            local_layers=config["gnn_num_layers"],
            local_norm=True,
            local_stem=True,
            local_residual=True,
            local_init=config["gnn_use_init"],
        )
    else:
        attention = AttentionSettings(
            attention_norm=flags.get("trans_use_bn", True),
            attention_residual="mix" if flags["trans_use_residual"] else "none",
            alpha=flags.get("trans_alpha", 0.5),
        )
        local = LocalSettings(local_layers=config["gcn_layers"], local_norm=config["gcn"]["use_bn"])
    return TwoBranch(
        NodeEncoder(None, {}, dim_in, batch_norm=False),
        dim_in,
        None,
        dim,
        flags["trans_num_layers"],
        lambda: SGFormer(dim, heads, use_weight=use_weight),
        lambda a, b: GCN(a, b, self_loops=not large),
        lambda width: NodeHead(width, config["classes"], layers_post_mp=1),
        dropout=0.5,
        graph_weight=flags["graph_weight" if large else "trans_graph_weight"],
        aggregate=flags["aggregate" if large else "trans_aggregate"],
        attention_branch=attention,
        local_branch=local,
    )


def _ours(key):
    """Recorded name -> ours."""
    for old, new in (("trans.", "attention_branch."), ("lin_out.", "head.mlp.lin.0.")):
        if key.startswith(old):
            return new + key.removeprefix(old)
    key = "local_branch." + key.removeprefix("gcn.")
    if ".layers." in key and key.endswith("weight"):
        return key.replace(".weight", ".lin.weight")
    return key


@pytest.mark.parametrize("name", COMPLETE)
def test_complete_model_equals_the_original(golden, name):
    recorded = golden(f"sgformer/{name}")
    config, large = recorded["config"], name.startswith("large")
    model = _complete(config, large).double().eval()
    dim, init = config["dim"], config.get("gnn_use_init", False)
    unused = set(config.get("no_gradient", []))
    used = {k: v for k, v in recorded.items() if k[2:] not in unused and k.removeprefix("grad/") not in unused}
    for i in range(config.get("gnn_num_layers", 0) if init else 0):
        # One recorded map of [A H | H_0]; ours are two maps.
        for kind in ("w", "grad"):
            joint = used[f"{kind}/gcn.layers.{i}.weight"]
            used[f"{kind}/gcn.layers.{i}.weight"] = joint[:, :dim]
            used[f"{kind}/gcn.init_maps.{i}.weight"] = joint[:, dim:]
    for norm in {k[2:].rsplit(".", 1)[0] for k in used if ".norms." in k and k.startswith("w/")}:
        if not hasattr(model.get_submodule(_ours(norm)), "weight"):
            used = {k: v for k, v in used.items() if not k.startswith(f"w/{norm}.")}
    load(model, used, _ours)
    x = recorded["in/x"].double().requires_grad_()
    batch = _single(x, recorded["in/edge_index"])
    close(model.attention_branch(x, None, batch), recorded["out/trans_branch"], "attention branch")
    close(model.local_branch(x, None, batch), recorded["out/gcn_branch"], "local branch")
    logits = model(batch)
    close(logits, recorded["out/logits"], "logits")
    (logits * recorded["in/grad_seed.logits"]).sum().backward()
    close(x.grad, recorded["grad/in.x"], "x")
    parameters = dict(model.named_parameters())
    gradients = {k[5:]: v for k, v in used.items() if k.startswith("grad/") and "in.x" not in k}
    assert len(gradients) == len(parameters)
    for key, expected in gradients.items():
        close(parameters[_ours(key)].grad, expected, key)


# ---- options ---------------------------------------------------------------------------------------------------------


def _model(**changes):
    arguments = {
        "encoder": NodeEncoder(None, {}, 5, batch_norm=False),
        "dim_encoded": 5,
        "edge_encoder": None,
        "dim": 8,
        "layers": 1,
        "attention": lambda: SGFormer(8, 1),
        "local": lambda a, b: GCN(a, b),
        "head": lambda width: NodeHead(width, 3),
    }
    return registry.construct(TwoBranch, {**arguments, **changes})


@pytest.fixture
def graph():
    return _single(torch.randn(6, 5), torch.randint(0, 6, (2, 12)))


def test_graph_weight_mixes_the_branches(graph):
    model = _model(graph_weight=0.3).eval()
    a, b = model.attention_branch(graph.x, None, graph), model.local_branch(graph.x, None, graph)
    torch.testing.assert_close(model.mix(graph.x, None, graph), 0.7 * a + 0.3 * b)
    for weight, branch in ((0.0, a), (1.0, b)):
        model.graph_weight = weight
        torch.testing.assert_close(model.mix(graph.x, None, graph), branch)


def test_concatenation_puts_attention_first(graph):
    model = _model(aggregate="cat").eval()
    mixed = model.mix(graph.x, None, graph)
    torch.testing.assert_close(mixed[:, :8], model.attention_branch(graph.x, None, graph))
    torch.testing.assert_close(mixed[:, 8:], model.local_branch(graph.x, None, graph))
    assert model(graph).shape == (6, 3)


def test_the_head_may_read_all_layers_of_the_attention(graph):
    """As NodeFormer's released ``--use_jk``: the first map and every layer, in this order."""
    model = _model(layers=2, local=None, attention_jump="cat").eval()
    states = model.mix(graph.x, None, graph)
    assert states.shape == (6, 24)
    first, second, third = states.split(8, dim=1)
    branch = model.attention_branch
    torch.testing.assert_close(first, torch.relu(branch.lin_in(graph.x)))
    torch.testing.assert_close(second, branch.layers[0](first, None, graph))
    torch.testing.assert_close(third, branch.layers[1](second, None, graph))
    assert model(graph).shape == (6, 3)
    assert _model(layers=2, aggregate="cat", attention_jump="cat")(graph).shape == (6, 3)


@pytest.mark.parametrize("aggregate", ["add", "cat"])
@pytest.mark.parametrize("left_out", ["attention", "local"])
def test_either_branch_may_be_left_out(graph, left_out, aggregate):
    model = _model(**{left_out: None}, aggregate=aggregate)
    assert model(graph).shape == (6, 3)


def test_each_branch_has_its_own_dropout_and_both_default_to_the_common_one():
    model = _model(dropout=0.5, attention_dropout=0.0)
    assert (model.attention_branch.dropout.p, model.local_branch.dropout.p) == (0.0, 0.5)
    model = _model(dropout=0.5, local_dropout=0.1)
    assert (model.attention_branch.dropout.p, model.local_branch.dropout.p) == (0.5, 0.1)


def test_the_last_layer_of_the_plain_local_branch_has_nothing_after_it(graph):
    branch = _model(local_layers=1, local_norm=True, dropout=0.9).local_branch
    assert len(branch.norms) == 0
    h = branch(graph.x, None, graph)
    assert torch.equal(h, branch(graph.x, None, graph))
    assert (h < 0).any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attention": None, "local": None}, "received neither"),
        ({"aggregate": "sum"}, "aggregate must be one of add, cat; received 'sum'"),
        ({"graph_weight": 1.5}, r"graph_weight must lie in \[0, 1\], received 1.5"),
        ({"attention_residual": "add"}, "none, mix, mean, sum; received 'add'"),
        ({"alpha": 1.5}, r"alpha must lie in \[0, 1\], received 1.5"),
        ({"local_layers": 0}, "local_layers must be at least 1, received 0"),
        ({"local_residual": True}, "set local_stem to true"),
        ({"local_init": True}, "set local_stem to true"),
        ({"attention_jump": "max"}, "attention_jump must be one of last, cat; received 'max'"),
        ({"attention_jump": "cat"}, "set aggregate to cat, or leave the local branch out"),
    ],
)
def test_wrong_values_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        _model(**changes)
