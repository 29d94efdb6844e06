"""The contract of every registered encoder: whatever lands in these rooms is tested the day it lands."""

from __future__ import annotations

import pytest
import torch

from graphbench import registry
from graphbench.structures import GraphBatch, Ragged

ROOMS = ("encoders/node", "encoders/edge", "encoders/positional")
EVERY = [(room, name) for room in ROOMS for name in registry.names(room)]
CONTEXT = {
    "dim": 8,
    "dim_pe": 8,
    "node_in": 9,
    "edge_in": 3,
    "num_types": 2,
    "max_freqs": 4,
    "times": [1, 2, 3, 4, 5],
    "layers": 2,
    "n_heads": 2,
}
OWN = {"LapPE": [{"model": "DeepSet"}, {"model": "Transformer"}], "RWSE": [{"model": "mlp"}, {"model": "linear"}]}
CASES = [(room, name, own) for room, name in EVERY for own in OWN.get(name, [{}])]


def _build(room, name, own):
    encoder = registry.construct(registry.lookup(room, name), own, CONTEXT).double()
    with torch.no_grad():  # ReLU encoders of width 8 may be dead by chance; positive weights are not
        for key, parameter in encoder.named_parameters():
            if "bias" in key:
                parameter.add_(0.5)
    return encoder.eval()


def _graph(size, edges, seed):
    generator = torch.Generator().manual_seed(seed)
    eigvecs = torch.randn(size, 4, generator=generator, dtype=torch.float64)
    eigvals = torch.rand(size, 4, generator=generator, dtype=torch.float64)
    if size < 4:
        eigvecs[:, size:] = torch.nan
        eigvals[:, size:] = torch.nan
    return GraphBatch(
        Ragged.from_sizes([size]),
        torch.randint(0, max(size, 1), (2, edges), generator=generator),
        x=torch.randint(0, 2, (size, 9), generator=generator),
        edge_attr=torch.randint(0, 2, (edges, 3), generator=generator),
        pe={
            "LapPE.eigvecs": eigvecs,
            "LapPE.eigvals": eigvals,
            "RWSE.landing": torch.rand(size, 5, generator=generator, dtype=torch.float64),
        },
    )


GRAPHS = [_graph(6, 10, 1), _graph(1, 0, 2), _graph(0, 0, 3), _graph(3, 4, 4)]


def _rows(room, batch):
    return batch.num_edges if room == "encoders/edge" else batch.num_nodes


@pytest.mark.parametrize(("room", "name", "own"), CASES)
def test_shapes_and_finite_values(room, name, own):
    encoder = _build(room, name, own)
    for batch in [*GRAPHS, GraphBatch.collate(GRAPHS)]:
        for training in (False, True):
            encoded = encoder.train(training)(batch)
            assert encoded.shape == (_rows(room, batch), 8)
            assert torch.isfinite(encoded).all()


@pytest.mark.parametrize(("room", "name", "own"), CASES)
def test_a_graph_does_not_depend_on_its_batch(room, name, own):
    encoder = _build(room, name, own)
    together = encoder(GraphBatch.collate(GRAPHS))
    alone = torch.cat([encoder(graph) for graph in GRAPHS])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("room", "name", "own"), CASES)
def test_rows_follow_the_order_of_their_nodes_or_edges(room, name, own):
    encoder = _build(room, name, own)
    graph = GRAPHS[0]
    nodes, edges = torch.randperm(6), torch.randperm(10)
    permuted = GraphBatch(
        graph.ragged,
        nodes.argsort()[graph.edge_index][:, edges],
        x=graph.x[nodes],
        edge_attr=graph.edge_attr[edges],
        pe={key: value[nodes] for key, value in graph.pe.items()},
    )
    expected = encoder(graph)[edges if room == "encoders/edge" else nodes]
    torch.testing.assert_close(encoder(permuted), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("room", "name", "own"), CASES)
def test_gradients_reach_everything_and_the_batch_stays_as_it_was(room, name, own):
    encoder = _build(room, name, own).train()
    batch = GraphBatch.collate(GRAPHS)
    tensors = [batch.x, batch.edge_attr, batch.edge_index, *batch.pe.values()]
    before = [tensor.clone() for tensor in tensors]
    encoded = encoder(batch)
    (encoded * torch.randn_like(encoded)).sum().backward()
    for key, parameter in encoder.named_parameters():
        assert parameter.grad is not None, key
        assert torch.isfinite(parameter.grad).all(), key
        assert parameter.grad.abs().sum() > 0, key
    for tensor, copy in zip(tensors, before):
        assert torch.equal(tensor.nan_to_num(-7), copy.nan_to_num(-7))


@pytest.mark.parametrize(("room", "name", "own"), CASES)
def test_the_state_can_be_restored(room, name, own):
    encoder, other = _build(room, name, own), _build(room, name, own)
    other.load_state_dict(encoder.state_dict())
    batch = GraphBatch.collate(GRAPHS)
    assert torch.equal(encoder(batch), other(batch))


@pytest.mark.parametrize("name", registry.names("encoders/positional"))
def test_every_positional_encoder_names_its_transform(name):
    assert isinstance(registry.lookup("encoders/positional", name).transform, str)
