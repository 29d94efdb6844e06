"""CPGNN against dense belief propagation, UniMP against PyG's layers; both read targets of training nodes only."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import TransformerConv

from graphbench import registry
from graphbench.encoders.compose import NodeEncoder
from graphbench.heads.node import NodeHead
from graphbench.models.cpgnn import CPGNN, doubly_stochastic, estimated_compatibility
from graphbench.models.unimp import UniMP
from graphbench.structures import GraphBatch
from graphbench.structures.known_targets import KNOWN
from tests.contract import example_batch, shaken

DIM, CLASSES = 8, 3


def build(model: type[nn.Module], **own: Any) -> Any:
    arguments = {
        "encoder": NodeEncoder(None, {}, 12, batch_norm=False),
        "dim_encoded": 12,
        "dim": DIM,
        "layers": 2,
        "head": lambda width: NodeHead(width, own.get("columns", CLASSES)),
        **{name: value for name, value in own.items() if name != "columns"},
    }
    taken = {name: arguments[name] for name in registry.parameters(model) if name in arguments}
    return shaken(registry.construct(model, taken).double()).eval()


@pytest.fixture
def graph() -> GraphBatch:
    batch = example_batch((12,))
    known = torch.arange(12) % 3 != 0
    return batch.replace(y=torch.arange(12) // 2 % CLASSES, pe={KNOWN: known})


def matrix(batch: GraphBatch, norm: str = "none") -> Tensor:
    dense = torch.zeros(batch.num_nodes, batch.num_nodes, dtype=torch.float64)
    dense.index_put_((batch.edge_index[1], batch.edge_index[0]), torch.tensor(1.0).double(), accumulate=True)
    degree = dense.sum(1)
    if norm == "row":
        return dense / degree.clamp(min=1)[:, None]
    scale = torch.where(degree > 0, degree, 1).rsqrt() if norm == "sym" else torch.ones_like(degree)
    return scale[:, None] * dense * scale


def prior_of(model: Any, batch: GraphBatch, network: str) -> Tensor:
    out = model.head.mlp.lin[0]
    if network == "mlp":
        return out((batch.x @ model.lin.weight.t()).relu())
    a, eye = matrix(batch, "sym"), torch.eye(batch.num_nodes, dtype=torch.float64)
    polynomials = [eye, -a, 2 * a @ a - eye]
    h = sum(t @ batch.x @ w.t() for t, w in zip(polynomials, model.lin.weight.split(DIM))).relu()
    return sum(t @ h @ w.t() for t, w in zip(polynomials, out.weight.split(DIM, 1))) + out.bias


@pytest.mark.parametrize("network", ["mlp", "cheby"])
@pytest.mark.parametrize("iterations", [1, 2])
def test_cpgnn_is_its_equations(graph: GraphBatch, network: str, iterations: int) -> None:
    model = build(CPGNN, network=network, iterations=iterations, classes=CLASSES)
    prior = prior_of(model, graph, network)
    torch.testing.assert_close(model(graph), prior)  # no step yet: the network alone
    model.propagation.step += 1
    h, e = model.propagation.compatibility, prior.softmax(1) - 1 / CLASSES
    belief = e
    for _ in range(iterations):
        belief = e + matrix(graph) @ belief @ h
    torch.testing.assert_close(model(graph), belief + 1 / CLASSES)


def test_two_classes_are_one_logit(graph: GraphBatch) -> None:
    one, two = (build(CPGNN, classes=2, columns=columns) for columns in (1, 2))
    two.load_state_dict({**one.state_dict(), **_second_column(one)})
    for model in (one, two):
        model.propagation.step += 1
    beliefs = two(graph)
    torch.testing.assert_close(one(graph), beliefs[:, 1:] - beliefs[:, :1])


def _second_column(one: Any) -> dict[str, Tensor]:
    last = one.head.mlp.lin[0]
    return {
        "head.mlp.lin.0.weight": torch.cat([torch.zeros_like(last.weight), last.weight]),
        "head.mlp.lin.0.bias": torch.cat([torch.zeros_like(last.bias), last.bias]),
    }


def test_compatibilities_are_estimated_after_pretraining(graph: GraphBatch) -> None:
    model = build(CPGNN, classes=CLASSES, pretrain=2).train()
    before = model.propagation.compatibility.detach().clone()
    for _ in range(2):
        prior = model(graph)
        torch.testing.assert_close(prior, prior_of(model, graph, "mlp"))
        prior.sum().backward()
        assert not model.propagation.compatibility.grad.any()
    assert torch.equal(model.propagation.compatibility, before)
    assert model.propagation.auxiliary_loss is None
    model(graph)
    expected = by_loops(prior, graph)
    torch.testing.assert_close(model.propagation.compatibility.data, expected)
    known = graph.pe[KNOWN]
    loss = expected.sum(1).abs().sum() + F.cross_entropy(prior[known], graph.y[known])
    torch.testing.assert_close(model.propagation.auxiliary_loss, loss)


def by_loops(prior: Tensor, batch: GraphBatch) -> Tensor:
    """The estimate, node by node."""
    known, y, around = batch.pe[KNOWN], batch.y, matrix(batch, "row")
    z = torch.stack([F.one_hot(y[i], CLASSES).double() if known[i] else prior[i].softmax(0) for i in range(len(y))])
    counted = [i for i in range(len(y)) if known[i] and around[i].any()]
    rows = [[around[i] @ z for i in counted if y[i] == c] for c in range(CLASSES)]
    estimate = torch.stack([torch.stack(each).mean(0) for each in rows])
    for _ in range(3000):
        estimate = estimate / estimate.sum(0)
        estimate = estimate / estimate.sum(1, keepdim=True)
    return ((estimate + estimate.t()) / 2 - 1 / CLASSES).detach()


def test_a_class_without_training_nodes_has_its_column(graph: GraphBatch) -> None:
    known = graph.pe[KNOWN] & (graph.y != 2)
    estimate = estimated_compatibility(torch.zeros(12, CLASSES).double(), graph.y, known, graph)
    assert torch.isfinite(estimate).all()
    torch.testing.assert_close(estimate, estimate.t())
    torch.testing.assert_close(estimate.sum(1), torch.zeros(CLASSES).double(), rtol=0, atol=1e-9)
    nobody = estimated_compatibility(torch.zeros(12, CLASSES).double(), graph.y, known & False, graph)
    torch.testing.assert_close(nobody, torch.zeros(CLASSES, CLASSES).double(), rtol=0, atol=1e-9)


def test_scaled_matrix_is_doubly_stochastic() -> None:
    scaled = doubly_stochastic(torch.rand(4, 4, dtype=torch.float64) + 0.1)
    for dim in (0, 1):
        torch.testing.assert_close(scaled.sum(dim), torch.ones(4).double(), rtol=0, atol=1e-9)


def test_classes_are_those_of_the_predictions(graph: GraphBatch) -> None:
    with pytest.raises(ValueError, match="classes is 5, the predictions have 3 columns"):
        build(CPGNN, classes=5)(graph)
    with pytest.raises(ValueError, match="network must be one of mlp, cheby; received 'gcn'"):
        build(CPGNN, network="gcn")


def peer_of(layer: Any, dim_in: int, average: bool) -> TransformerConv:
    width = DIM if average else DIM // 2
    peer = TransformerConv(dim_in, width, heads=2, concat=not average, beta=True).double()
    names = ("lin_query", "lin_key", "lin_value", "lin_skip")
    maps = {part: getattr(layer.lin, part).split(layer.widths) for part in ("weight", "bias")}
    own = {f"{name}.{part}": value for part, values in maps.items() for name, value in zip(names, values)}
    peer.load_state_dict(own | {"lin_beta.weight": layer.gate.weight})
    return peer


def test_unimp_is_pyg_s_layers_over_features_and_labels(graph: GraphBatch) -> None:
    model = build(UniMP, num_heads=2, classes=CLASSES)
    first, last = model.layers
    x = graph.x + graph.pe[KNOWN][:, None] * model.labels.weight[graph.y]
    h = model.norms[0](peer_of(first, 12, False)(x, graph.edge_index)).relu()
    expected = model.head.mlp(peer_of(last, DIM, True)(h, graph.edge_index))
    torch.testing.assert_close(model(graph), expected)


def test_a_step_learns_from_labels_that_it_does_not_read(graph: GraphBatch) -> None:
    model, known = build(UniMP, num_heads=2, classes=CLASSES, label_rate=0.5).train(), graph.pe[KNOWN]
    torch.manual_seed(3)
    given = known & (torch.rand(12) < 0.5)
    hidden = known & ~given
    assert given.any()
    assert hidden.any()
    torch.manual_seed(3)
    F.cross_entropy(model(graph)[known], graph.y[known]).backward()
    found = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    told = model.eval()(graph.replace(pe={KNOWN: given}))  # evaluation reads all it is told
    F.cross_entropy(told[hidden], graph.y[hidden]).backward()
    for gradient, parameter in zip(found, model.parameters()):
        torch.testing.assert_close(gradient, parameter.grad)


@pytest.mark.parametrize("model", [CPGNN, UniMP])
def test_other_targets_are_not_read(graph: GraphBatch, model: type[nn.Module]) -> None:
    other = graph.replace(y=torch.where(graph.pe[KNOWN], graph.y, (graph.y + 1) % CLASSES))
    built = build(model, classes=CLASSES)
    if model is CPGNN:
        built.propagation.step += 1
    assert torch.equal(built(graph), built(other))
    built.train()
    torch.manual_seed(0)
    first = built(graph)
    state = [value.clone() for value in built.state_dict().values()]
    again = build(model, classes=CLASSES)
    again.load_state_dict(dict(zip(built.state_dict(), state)))
    torch.manual_seed(0)
    assert torch.equal(first, again.train()(other))


@pytest.mark.parametrize(
    ("own", "message"),
    [({"num_heads": 3}, "divide the width 8"), ({"label_rate": 1.0}, r"lie in \[0, 1\), received 1.0")],
)
def test_wrong_values_are_named(own: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(UniMP, **own)
