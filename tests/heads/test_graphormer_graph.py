"""The head that reads a graph token."""

from __future__ import annotations

import pytest
import torch

from graphbench.heads.graphormer_graph import GraphormerGraphHead
from graphbench.heads.pooling import pooling_function
from graphbench.structures import GraphBatch, Ragged


def _batch(sizes):
    return GraphBatch(Ragged.from_sizes(sizes), torch.zeros(2, 0, dtype=torch.int64))


def test_equals_graphgps(golden):
    arrays = golden("graphgps/head_graphormer_mean")
    config = arrays["config"]
    head = GraphormerGraphHead(config["dim_in"], config["dim_out"], pooling=config["pooling"]).double()
    head.load_state_dict({key[2:].replace(".0.", "."): arrays[key].double() for key in arrays if key.startswith("w/")})
    h = arrays["in/x"].double().requires_grad_()
    pred = head(h, _batch(arrays["in/ptr"].diff().tolist()))
    torch.testing.assert_close(pred, arrays["out/pred"], rtol=0, atol=1e-12)
    (pred * arrays["in/grad_seed.pred"]).sum().backward()
    torch.testing.assert_close(h.grad, arrays["grad/in.x"], rtol=0, atol=1e-12)
    for name, parameter in head.named_parameters():
        module, kind = name.split(".")
        torch.testing.assert_close(parameter.grad, arrays[f"grad/{module}.0.{kind}"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("sizes", [[3, 1, 2], [0, 2, 0, 0, 1, 0], [0], []])
def test_graph_token_is_the_first_node_of_every_graph_and_zero_for_an_empty_one(sizes):
    h = torch.randn(sum(sizes), 4, requires_grad=True)
    pooled = pooling_function("graph_token")(h, Ragged.from_sizes(sizes))
    rows = [part[0] if len(part) else torch.zeros(4) for part in h.split(sizes)]
    assert torch.equal(pooled, torch.stack(rows) if rows else torch.zeros(0, 4))
    if sum(sizes):
        pooled.sum().backward()
        assert h.grad.sum() == 4 * sum(size > 0 for size in sizes)


def test_a_token_is_normalised_alone():
    head, h = GraphormerGraphHead(4, 2), torch.randn(5, 4)
    expected = head.lin(head.norm(h[[0, 3]]))
    torch.testing.assert_close(head(h, _batch([3, 2])), expected)
