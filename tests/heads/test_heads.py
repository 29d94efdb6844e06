"""Prediction heads against GraphGPS, and the contract of every registered one."""

from __future__ import annotations

import pytest
import torch

from graphbench import registry
from graphbench.heads.graph import GraphHead
from graphbench.heads.node import NodeHead
from graphbench.heads.san_graph import SANGraphHead
from graphbench.structures import GraphBatch, Ragged

RECORDED = {
    "head_default_add_L2": GraphHead,
    "head_default_max_L2": GraphHead,
    "head_default_mean_L1": GraphHead,
    "head_default_mean_L3": GraphHead,
    "head_inductive_node_L1": NodeHead,
    "head_inductive_node_L3": NodeHead,
    "head_san_graph_add": SANGraphHead,
}
HEADS = registry.names("heads")
CONTEXT = {"dim_in": 32, "out_dim": 3, "layers_post_mp": 2, "pooling": "mean", "act": "relu"}


def _batch(sizes):
    return GraphBatch(Ragged.from_sizes(sizes), torch.zeros(2, 0, dtype=torch.int64))


def _head(name, **changes):
    return registry.construct(registry.lookup("heads", name), changes, CONTEXT)


@pytest.mark.parametrize("name", RECORDED)
def test_equals_graphgps(golden, name):
    recorded = golden(f"graphgps/{name}")
    config = recorded["config"]
    context = {
        "dim_in": config["dim_in"],
        "out_dim": config["dim_out"],
        "layers_post_mp": config["layers_post_mp"],
        "pooling": config["pooling"],
        "act": config["act"],
    }
    head = registry.construct(RECORDED[name], {}, context).double()
    prefix = "" if RECORDED[name] is SANGraphHead else "mlp."
    head.load_state_dict({prefix + key[2:]: value.double() for key, value in recorded.items() if key.startswith("w/")})
    h = recorded["in/x"].double().requires_grad_()
    pred = head(h, _batch(recorded["in/ptr"].diff().tolist()))
    torch.testing.assert_close(pred, recorded["out/pred"], rtol=0, atol=1e-12)
    (pred * recorded["in/grad_seed.pred"]).sum().backward()
    torch.testing.assert_close(h.grad, recorded["grad/in.x"], rtol=0, atol=1e-12)
    for key, parameter in head.named_parameters():
        torch.testing.assert_close(parameter.grad, recorded[f"grad/{key.removeprefix(prefix)}"], rtol=0, atol=1e-12)


def test_hidden_rows_have_length_one():
    head = NodeHead(8, 3, layers_post_mp=2)
    h = torch.randn(5, 8)
    doubled = NodeHead(8, 3, layers_post_mp=2)
    doubled.load_state_dict(head.state_dict())
    with torch.no_grad():
        for parameter in doubled.mlp.lin[0].parameters():
            parameter.mul_(2)
    torch.testing.assert_close(head(h, _batch([5])), doubled(h, _batch([5])))


def test_an_empty_graph_is_predicted_from_zeros():
    head = GraphHead(4, 2, layers_post_mp=1, pooling="max")
    pred = head(-torch.rand(3, 4), _batch([0, 3, 0]))
    torch.testing.assert_close(pred[0], head.mlp.lin[0].bias)
    assert torch.equal(pred[0], pred[2])


def test_zero_layers_count_as_one():
    assert len(GraphHead(4, 2, layers_post_mp=0).mlp.lin) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GraphHead(4, 2, pooling="median"), "add, sum, mean, max; received 'median'"),
        (lambda: NodeHead(4, 2, layers_post_mp=-1), "0 or more, received -1"),
    ],
)
def test_wrong_values_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# ---- every registered head -------------------------------------------------------------------------------------------


def _rows(name, sizes):
    return sum(sizes) if "node" in name else len(sizes)


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("sizes", [[5, 3], [1], [0], [4, 0, 1], []])
def test_shapes_and_finite_values(name, sizes):
    pred = _head(name)(torch.randn(sum(sizes), 32), _batch(sizes))
    assert pred.shape == (_rows(name, sizes), 3)
    assert torch.isfinite(pred).all()


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("pooling", ["add", "mean", "max"])
def test_a_graph_does_not_depend_on_its_batch(name, pooling):
    head = _head(name, pooling=pooling)
    head = head.double()
    sizes = [4, 1, 6]
    h = torch.randn(11, 32, dtype=torch.float64)
    together = head(h, _batch(sizes)).split([_rows(name, [size]) for size in sizes])
    for alone, pred, size in zip(h.split(sizes), together, sizes):
        torch.testing.assert_close(head(alone, _batch([size])), pred, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", HEADS)
def test_the_order_of_nodes_does_not_matter(name):
    head = _head(name).double()
    h, order = torch.randn(7, 32, dtype=torch.float64), torch.randperm(7)
    pred, permuted = head(h, _batch([7])), head(h[order], _batch([7]))
    torch.testing.assert_close(permuted, pred[order] if "node" in name else pred, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", HEADS)
def test_gradients_reach_everything_and_the_state_can_be_restored(name):
    head, batch, h = _head(name), _batch([4, 3, 5]), torch.randn(12, 32, requires_grad=True)
    pred = head(h, batch)
    (pred * torch.randn_like(pred)).sum().backward()
    assert h.grad.abs().sum() > 0
    for key, parameter in head.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.abs().sum() > 0, key
        assert torch.isfinite(parameter.grad).all(), key
    other = _head(name)
    other.load_state_dict(head.state_dict())
    assert torch.equal(other(h, batch), head(h, batch))
