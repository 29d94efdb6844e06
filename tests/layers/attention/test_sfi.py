"""SFi-Former's layer against Eq. 11 written out for one graph, in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench.config import load_config
from graphbench.errors import UserError
from graphbench.factory.data import declared_info
from graphbench.factory.model import build_model
from graphbench.layers.attention.sfi import DFi, SFi
from graphbench.structures import GraphBatch
from tests.contract import CHECKS, Subject, alone, check_corner_cases, example_batch, shaken
from tests.paths import ROOT

DIM, HEADS, LARGEST = 12, 3, 20
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "dense": {"mode": "dense"},
    "none": {"mode": "none"},
    "no adjacency": {"adjacency": False},
    "dense, no adjacency": {"mode": "dense", "adjacency": False},
    "own size": {"lam_norm": "graph", "lam": 3.0},
    "batch": {"lam_norm": "batch", "lam": 3.0},
    "conserving": {"alpha": math.inf, "lam": 2.0},
    "no friction": {"lam": 0.0},
    "proximal": {"solver": "proximal", "iters": 3},
    "Barzilai-Borwein": {"solver": "proximal", "iters": 3, "step": "bb"},
}


def make(**options: Any) -> SFi:
    torch.manual_seed(0)
    layer = SFi(DIM, HEADS, **{"max_nodes": LARGEST, **options}).double()
    shaken(layer)
    return layer


def out(layer: SFi, batch: GraphBatch) -> Tensor:
    h: Tensor = layer(batch.x, batch.edge_attr, batch)
    return h


# ---- the equation ----------------------------------------------------------------------------------------------------


def flow(s: Tensor, t: Tensor, lam: float, alpha: float) -> Tensor:
    """Rows of Z by bisection on mu: z_j = max(mu - lam f_j, 0) / r_j and mu = alpha (1 - sum z)."""
    r, friction = (-s).softmax(1), lam * t.softmax(1)
    low, high = torch.zeros(len(s), 1, dtype=s.dtype), (friction + r).sum(1, keepdim=True)
    for _ in range(200):
        mu = (low + high) / 2
        too_large = mu / alpha + ((mu - friction).clamp(min=0) / r).sum(1, keepdim=True) > 1
        low, high = torch.where(too_large, low, mu), torch.where(too_large, mu, high)
    return (mu - friction).clamp(min=0) / r


@torch.no_grad()
def equation(layer: SFi, graph: GraphBatch, options: dict[str, Any], largest_of_batch: int) -> Tensor:
    """Eq. 11 without the residual X, for one graph, head by head."""
    p, n = dict(layer.named_parameters()), graph.num_nodes
    x = torch.nn.functional.layer_norm(graph.x, (DIM,), p["norm.weight"], p["norm.bias"])
    adjacency = torch.eye(n, dtype=x.dtype)
    adjacency[graph.edge_index[1], graph.edge_index[0]] += 1
    degree = adjacency.sum(1)
    near = adjacency / (degree[:, None] * degree[None, :]).sqrt() * float(options.get("adjacency", True))
    mode, norm = options.get("mode", "sparse"), options.get("lam_norm", "dataset")
    largest = {"dataset": LARGEST, "graph": max(n, 1), "batch": largest_of_batch}[norm]
    total = p["out.bias"].expand(n, DIM).clone()
    for head in range(HEADS):
        own = slice(head * DIM, (head + 1) * DIM)

        def project(name: str, own: slice = own) -> Tensor:
            return x @ p[f"{name}.weight"][own].t() + p[f"{name}.bias"][own]

        pattern = near
        if mode != "none":
            s, gamma = project("q") @ project("k").t() / math.sqrt(DIM), p["gamma"]
            if mode == "sparse":
                t = project("q_friction") @ project("k_friction").t() / math.sqrt(DIM)
                lam = float(p["log_lam"].exp()) * options.get("lam", 1.0) / largest
                z = flow(s, t, lam, options.get("alpha", 0.1))
            else:
                z = s.softmax(1)
            pattern = (near + gamma * z) / (1 + gamma)
        total += pattern @ project("v") @ p["out.weight"][:, own].t()
    return total


@pytest.mark.parametrize("name", [name for name, options in OPTIONS.items() if "solver" not in options])
def test_equals_the_equation_graph_by_graph(name: str) -> None:
    layer, batch = make(**OPTIONS[name]), example_batch((7, 1, 12, 0, 2, LARGEST))
    expected = [
        equation(layer, alone(batch, graph), OPTIONS[name], batch.ragged.max_size) for graph in range(batch.num_graphs)
    ]
    torch.testing.assert_close(out(layer, batch), torch.cat(expected), rtol=1e-9, atol=1e-10)


def test_friction_makes_flows_vanish_and_the_pattern_is_the_layers() -> None:
    layer, batch = make(lam=30.0), example_batch((12, 0, 7))
    patterns = layer.attention_weights(batch.x, batch.edge_attr, batch)
    assert [each.shape for each in patterns] == [(HEADS, 12, 12), (HEADS, 0, 0), (HEADS, 7, 7)]
    zero = layer.statistics(batch.x, batch.edge_attr, batch)["zero_flow"]
    torch.testing.assert_close(zero, torch.stack([(z == 0).to(zero.dtype).mean() for z in patterns]), equal_nan=True)
    assert 0 < zero[0] < 1
    assert zero[1].isnan()
    x = layer.norm(batch.x)
    v = layer.v(x).view(-1, HEADS, DIM).split([12, 0, 7])
    mixed = torch.cat([torch.einsum("hij,jhd->ihd", z, each) for z, each in zip(patterns, v, strict=True)])
    layer.adjacency = False
    torch.testing.assert_close(out(layer, batch), layer.out((mixed * layer.gamma / (1 + layer.gamma)).flatten(1)))


def test_what_the_other_modes_have_to_say() -> None:
    batch = example_batch((5, 3))
    dense, none = make(mode="dense"), make(mode="none")
    for z in dense.attention_weights(batch.x, None, batch):
        torch.testing.assert_close(z.sum(2), torch.ones_like(z.sum(2)))
    assert [z.shape for z in none.attention_weights(batch.x, None, batch)] == [(0, 5, 5), (0, 3, 3)]
    assert dense.statistics(batch.x, None, batch) == none.statistics(batch.x, None, batch) == {}


def test_dfi_is_the_limit_without_friction_and_shares_its_names() -> None:
    torch.manual_seed(0)
    sparse, dense, batch = make(lam=0.0, alpha=math.inf), DFi(DIM, HEADS).double(), example_batch()
    state = sparse.state_dict()
    assert dense.state_dict().keys() < state.keys()
    fresh = {name.split(".")[0] for name in state.keys() - dense.state_dict().keys()}
    assert fresh == {"q_friction", "k_friction", "log_lam", "max_nodes"}
    dense.load_state_dict({name: state[name] for name in dense.state_dict()})
    torch.testing.assert_close(out(dense, batch), out(sparse, batch))


def test_dropout_acts_on_the_flow_and_not_on_the_adjacency() -> None:
    layer, batch = make(dropout=1.0), example_batch()
    near = make(mode="none")
    near.load_state_dict({name: value for name, value in layer.state_dict().items() if name in near.state_dict()})
    expected = (out(near, batch) - near.out.bias) / (1 + layer.gamma) + near.out.bias
    torch.testing.assert_close(out(layer.train(), batch), expected)
    assert not torch.allclose(out(layer.eval(), batch), expected)


def test_the_solver_is_the_one_that_was_asked_for() -> None:
    batch = example_batch((LARGEST,))
    layers = [make(**options) for options in (OPTIONS["default"], OPTIONS["proximal"], OPTIONS["Barzilai-Borwein"])]
    for other in layers[1:]:
        other.load_state_dict(layers[0].state_dict())
    exact, safe, bb = (out(layer, batch) for layer in layers)
    assert not torch.allclose(exact, safe)
    assert not torch.allclose(safe, bb)


# ---- size ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "heads"), [(68, 4), (32, 8), (7, 1)])
def test_parameters(d: int, heads: int) -> None:
    def count(layer: torch.nn.Module) -> int:
        return sum(parameter.numel() for parameter in layer.parameters())

    sparse = 6 * heads * d * d + (5 * heads + 3) * d + 2
    assert count(SFi(d, heads)) == count(SFi(d, heads, adjacency=False)) == sparse
    dense = sparse - 2 * heads * d * (d + 1) - 1
    assert count(DFi(d, heads)) == count(SFi(d, heads, mode="dense")) == dense
    assert count(SFi(d, heads, mode="none")) == dense - 2 * heads * d * (d + 1) - 1


# ---- N* --------------------------------------------------------------------------------------------------------------


def test_the_size_of_the_training_set_travels_with_the_parameters() -> None:
    trained, elsewhere, batch = make(lam=5.0), make(lam=5.0, max_nodes=4 * LARGEST), example_batch()
    before = out(elsewhere, batch)
    elsewhere.load_state_dict(trained.state_dict())
    assert torch.equal(out(elsewhere, batch), out(trained, batch))
    assert not torch.allclose(before, out(trained, batch))


def test_an_unknown_training_set_is_named_when_it_is_needed() -> None:
    layer, batch = SFi(DIM, HEADS).double(), example_batch()
    with pytest.raises(ValueError, match=r"lam_norm 'dataset' divides by .* max_nodes was not given"):
        layer(batch.x, None, batch)
    for options in ({"lam_norm": "graph"}, {"lam_norm": "batch"}, {"mode": "dense"}):
        assert torch.isfinite(SFi(DIM, HEADS, **options).double()(batch.x, None, batch)).all()


def test_only_the_norm_of_the_paper_looks_at_the_batch() -> None:
    batch = example_batch((7, 40))
    for norm, depends in (("dataset", False), ("graph", False), ("batch", True)):
        layer = make(lam=20.0, lam_norm=norm)
        assert torch.allclose(out(layer, batch)[:7], out(layer, alone(batch, 0))) is not depends, norm


# ---- contract --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPTIONS)
def test_contract_with_options(name: str) -> None:
    layer = make(**OPTIONS[name])
    subject = Subject(layer, lambda module, batch: {"h": module(batch.x, None, batch)}, {"h": "node"}, {"h": DIM})
    idle = {"q_friction", "k_friction"} if name == "no friction" else set()
    for check, function in CHECKS.items():
        if not ((check == "batch_independence" and name == "batch") or (check == "gradients" and idle)):
            function(subject, example_batch())
    check_corner_cases(subject)


@pytest.mark.parametrize("name", ["gamma", "log_lam"])
def test_the_gradient_of_the_learned_scalars(name: str) -> None:
    layer, batch = make(lam=5.0), example_batch((LARGEST, 7))
    scalar = layer.get_parameter(name)

    def loss(shift: float) -> Tensor:
        with torch.no_grad():
            scalar.add_(shift)
            value = out(layer, batch).square().sum()
            scalar.sub_(shift)
        return value

    out(layer, batch).square().sum().backward()
    assert scalar.grad is not None
    assert scalar.grad.abs() > 1e-6
    torch.testing.assert_close(scalar.grad, (loss(1e-5) - loss(-1e-5)) / 2e-5, rtol=1e-4, atol=0)


@pytest.mark.parametrize("name", OPTIONS)
def test_half_precision_of_the_surroundings(name: str) -> None:
    layer, batch = make(**OPTIONS[name]).float(), example_batch(dtype=torch.float32)

    def everything() -> tuple[Tensor, list[Tensor], list[Tensor]]:
        said = layer.statistics(batch.x, None, batch)
        return layer(batch.x, None, batch), layer.attention_weights(batch.x, None, batch), list(said.values())

    expected, patterns, said = everything()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        received, rounded, said_then = everything()
    assert received.dtype == torch.bfloat16
    assert (received.float() - expected).abs().max() < 0.05 * expected.abs().max()
    for z, expected_z in zip(rounded, patterns, strict=True):
        assert z.dtype == torch.float32
        torch.testing.assert_close(z, expected_z, rtol=0, atol=0.05)
    torch.testing.assert_close(said_then, said, rtol=0, atol=0.05, equal_nan=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "spars"}, "mode must be one of sparse, dense, none; received 'spars'"),
        ({"lam_norm": "n"}, "lam_norm must be one of dataset, graph, batch; received 'n'"),
        ({"solver": "newton"}, "solver must be one of exact, proximal; received 'newton'"),
        ({"step": "big"}, "step must be one of safe, bb; received 'big'"),
        ({"lam": -1.0}, "lam must be a finite number of at least 0, received -1.0"),
        ({"lam": math.inf}, "lam must be a finite number"),
        ({"alpha": 0.0}, r"alpha must be above 0 \(inf is allowed\), received 0.0"),
        ({"iters": 0}, "iters must be at least 1, received 0"),
        ({"max_nodes": 0}, "max_nodes must be at least 1, received 0"),
        ({"dropout": 1.5}, r"dropout must lie in \[0, 1\], received 1.5"),
        ({"solver": "proximal", "alpha": math.inf}, "proximal solver needs a finite alpha"),
        ({"mode": "none", "adjacency": False}, "nothing is left"),
    ],
)
def test_refused_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**options)


# ---- from YAML -------------------------------------------------------------------------------------------------------

PASCAL = ROOT / "configs/lrgb/sfi-pascal.yaml"


def layer_of(*overrides: str) -> SFi:
    config = load_config(PASCAL, ["gt.layers", "1", *overrides])
    info = declared_info(config)
    assert info is not None
    found = [each for each in build_model(config, info).modules() if isinstance(each, SFi)]
    return found[0]


@pytest.mark.parametrize("written", ["inf", ".inf"])
def test_infinity_is_a_value_of_alpha(written: str) -> None:
    config = load_config(PASCAL, ["gt.SFi.alpha", written])
    assert config.value("gt.SFi.alpha") == math.inf
    assert layer_of("gt.SFi.alpha", written).alpha == math.inf


def test_settings_come_from_the_configuration() -> None:
    layer = layer_of("gt.SFi.lam", "0.5", "gt.SFi.max_nodes", "500")
    assert (layer.lam, layer.dropout, layer.heads, layer.max_nodes.item()) == (0.5, 0.5, 4, 500)
    assert layer.norm.normalized_shape == (68,)


def test_a_wrong_value_is_blamed_on_its_key() -> None:
    with pytest.raises(UserError, match=r"command line: gt\.SFi\.lam: lam must be a finite number"):
        layer_of("gt.SFi.lam", "-1")
    with pytest.raises(UserError, match=r"command line: gt\.SFi\.max_nodes: max_nodes must be at least 1"):
        layer_of("gt.SFi.iters", "5", "gt.SFi.max_nodes", "0")
