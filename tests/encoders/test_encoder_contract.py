"""The contract of every registered encoder: whatever lands in these namespaces is tested the day it lands."""

from __future__ import annotations

import pytest
import torch

from graphbench import registry
from graphbench.data.store import GraphStore
from graphbench.encoders.contract import BatchEncoder
from graphbench.structures import GraphBatch, PairBlocks, Ragged
from tests.joined import joined

NAMESPACES = ("encoders/node", "encoders/edge", "encoders/positional")
EVERY = [(namespace, name) for namespace in NAMESPACES for name in registry.names(namespace)]
DIM = 8
CONTEXT = {
    "dim": DIM,
    "dim_pe": DIM,
    "heads": 2,
    "num_types": 2,
    "edge_types": 2,
    "max_nodes": 6,
    "max_freqs": 4,
    "times": [1, 2, 3, 4, 5],
    "scales": [0.5, 1.0, 4.0],
    "layers": 2,
    "post_layers": 2,
    "n_heads": 2,
    "num_spatial_types": 3,
    "num_in_degrees": 12,
    "num_out_degrees": 12,
}
# Columns that an encoder insists on; the others read what there is.
NODE_IN = {"ASTNode": 3, "VOCNode": 14, "COCONode": 14}
EDGE_IN = {"ASTEdge": 2, "PPAEdge": 7, "VOCEdge": 2, "COCOEdge": 2}
OWN = {
    "AtomTable": [{"num_types": 174}],
    "LapPE": [{"model": "DeepSet"}, {"model": "Transformer"}],
    "RWSE": [{"model": "mlp"}, {"model": "linear"}],
    "EquivStableRWSE": [{"raw_norm_type": "BatchNorm"}],
    "ElstaticSE": [{"times": list(range(10))}],
    "SignNet": [{"model": "MLP", "phi_hidden_dim": 6}, {"model": "DeepSet", "phi_hidden_dim": 6}],
    "ERN": [{"model": "Linear"}, {"model": "DeepSet"}, {"model": "Transformer"}],
    "GraphormerBias": [{"use_graph_token": True}, {"use_graph_token": False}],
    "WavePE": [{"raw_norm_type": "none"}, {"raw_norm_type": "BatchNorm"}],
    **{name: [{}, {"standardize": True}] for name in ("VOCNode", "COCONode", "VOCEdge", "COCOEdge")},
}
CASES = [(namespace, name, own) for namespace, name in EVERY for own in OWN.get(name, [{}])]


def _build(namespace, name, own):
    context = {**CONTEXT, "node_in": NODE_IN.get(name, 9), "edge_in": EDGE_IN.get(name, 3)}
    encoder = registry.construct(registry.lookup(namespace, name), {**context, **own}).double()
    with torch.no_grad():  # ReLU encoders of width 8 may be dead by chance; positive weights are not
        for key, parameter in encoder.named_parameters():
            if "bias" in key:
                parameter.add_(0.5)
    return encoder.eval()


def _level(namespace, name):
    if namespace == "encoders/positional":
        return registry.lookup(namespace, name).level
    return namespace.removeprefix("encoders/")


def _is_column(namespace, name):
    return not issubclass(registry.lookup(namespace, name), BatchEncoder)


def _graph(size, edges, seed, name):
    generator = torch.Generator().manual_seed(seed)

    def numbers(*shape):
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    eigvecs, eigvals = torch.randn(size, 4, generator=generator, dtype=torch.float64), numbers(size, 4)
    if size < 4:
        eigvecs[:, size:] = torch.nan
        eigvals[:, size:] = torch.nan
    pe = {f"{each}.eigvecs": eigvecs for each in ("LapPE", "AddLapPE", "SignNet", "EquivStableLapPE")}
    pe |= {
        "LapPE.eigvals": eigvals,
        "AddLapPE.eigvals": eigvals,
        "RWSE.landing": numbers(size, 5),
        "EquivStableRWSE.landing": numbers(size, 5),
        "HKdiagSE.heat": numbers(size, 5),
        "ElstaticSE.potential": numbers(size, 10),
        "ERN.embedding": numbers(size, 3),
        "SVDPE.vectors": numbers(size, 8),
        "states": numbers(size, DIM),  # what an encoder that works on the concatenation is given
    }
    edge_index = torch.randint(0, max(size, 1), (2, edges), generator=generator)
    edge_pe = {"RWSEEdge.landing": numbers(edges, 6), "ERE.resistance": numbers(edges, 1)}
    pair_pe = {"GraphormerBias.edge_types": torch.randint(0, 2, (size * size, 3), generator=generator).byte()}
    if _transform(name) and not any(key.startswith(f"{name}.") for key in (*pe, *edge_pe, *pair_pe)):
        transform = registry.construct(_transform(name), CONTEXT)
        encodings = transform(GraphStore.from_arrays([size], [edges], edge_index))
        # Hop distances and Graphormer's paths are random numbers, below.
        into = {"node": pe, "edge": edge_pe, "pair": pair_pe}[transform.level]
        into |= {f"{name}.{output}": values.double() for output, values in encodings.items()}
    return GraphBatch(
        Ragged.from_sizes([size]),
        edge_index,
        x=torch.randint(0, 2, (size, NODE_IN.get(name, 9)), generator=generator),
        edge_attr=torch.randint(0, 2, (edges, EDGE_IN.get(name, 3)), generator=generator),
        pe=pe,
        edge_pe=edge_pe,
        pair_pe=pair_pe,
        pairs=PairBlocks(torch.randint(0, 6, (size * size,), generator=generator).byte(), (size,)),
    )


def _transform(name):
    if name not in registry.names("encoders/positional"):
        return None
    transform = registry.lookup("encoders/positional", name).transform
    return None if transform is None else registry.lookup("transforms", transform)


def _graphs(name):
    return [_graph(6, 10, 1, name), _graph(1, 0, 2, name), _graph(0, 0, 3, name), _graph(3, 4, 4, name)]


def _encode(namespace, name, encoder, batch):
    """All that an encoder computes: its columns, or the new states and what it leaves for later layers."""
    if _is_column(namespace, name):
        return [encoder(batch)]
    h, after = encoder(batch.pe["states"], batch)
    assert h.shape == (after.num_nodes, DIM)
    return [h, *(value for _, value in after.state.tensors())]


@pytest.mark.parametrize(("namespace", "name", "own"), CASES)
def test_shapes_and_finite_values(namespace, name, own):
    encoder = _build(namespace, name, own)
    for batch in [*_graphs(name), joined(_graphs(name))]:
        for training in (False, True):
            encoded = _encode(namespace, name, encoder.train(training), batch)
            rows = batch.num_edges if _level(namespace, name) == "edge" else batch.num_nodes
            if _is_column(namespace, name):
                assert encoded[0].shape == (rows, DIM)
            for values in encoded:
                assert torch.isfinite(values).all()


@pytest.mark.parametrize(("namespace", "name", "own"), CASES)
def test_a_graph_does_not_depend_on_its_batch(namespace, name, own):
    encoder = _build(namespace, name, own)
    together = _encode(namespace, name, encoder, joined(_graphs(name)))
    alone = [_encode(namespace, name, encoder, graph) for graph in _graphs(name)]
    for values, parts in zip(together, zip(*alone, strict=True), strict=True):
        torch.testing.assert_close(values, torch.cat(parts), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("namespace", "name", "own"), CASES)
def test_rows_follow_the_order_of_their_nodes_or_edges(namespace, name, own):
    encoder = _build(namespace, name, own)
    graph = _graphs(name)[0]
    nodes, edges = torch.randperm(6), torch.randperm(10)
    pairs = (nodes[:, None] * 6 + nodes).flatten()
    permuted = GraphBatch(
        graph.ragged,
        nodes.argsort()[graph.edge_index][:, edges],
        x=graph.x[nodes],
        edge_attr=graph.edge_attr[edges],
        pe={key: value[nodes] for key, value in graph.pe.items()},
        edge_pe={key: value[edges] for key, value in graph.edge_pe.items()},
        pair_pe={key: value[pairs] for key, value in graph.pair_pe.items()},
        pairs=PairBlocks(graph.pairs.distance[pairs], graph.ragged.sizes),
    )
    orders = {10: edges, 6: nodes, 36: pairs}
    expected, received = _encode(namespace, name, encoder, graph), _encode(namespace, name, encoder, permuted)
    for before, after in zip(expected, received, strict=True):
        if len(before) in orders:  # one more node per graph: tested with the encoder that adds it
            torch.testing.assert_close(after, before[orders[len(before)]], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("namespace", "name", "own"), CASES)
def test_gradients_reach_everything_and_the_batch_stays_as_it_was(namespace, name, own):
    encoder = _build(namespace, name, own).train()
    batch = joined(_graphs(name))
    groups = [*batch.pe.values(), *batch.edge_pe.values(), *batch.pair_pe.values()]
    tensors = [batch.x, batch.edge_attr, batch.edge_index, batch.pairs.distance, *groups]
    before = [tensor.clone() for tensor in tensors]
    total = sum((encoded * torch.randn_like(encoded)).sum() for encoded in _encode(namespace, name, encoder, batch))
    assert total.requires_grad == any(True for _ in encoder.parameters())  # a mask has none
    if total.requires_grad:
        total.backward()
    for key, parameter in encoder.named_parameters():
        assert parameter.grad is not None, key
        assert torch.isfinite(parameter.grad).all(), key
        assert parameter.grad.abs().sum() > 0, key
    assert not list(batch.state.tensors())
    for tensor, copy in zip(tensors, before):
        assert torch.equal(tensor.double().nan_to_num(-7), copy.double().nan_to_num(-7))


@pytest.mark.parametrize(("namespace", "name", "own"), CASES)
def test_the_state_can_be_restored(namespace, name, own):
    encoder, other = _build(namespace, name, own), _build(namespace, name, own)
    other.load_state_dict(encoder.state_dict())
    batch = joined(_graphs(name))
    for a, b in zip(_encode(namespace, name, encoder, batch), _encode(namespace, name, other, batch), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", registry.names("encoders/positional"))
def test_every_positional_encoder_reads_what_a_transform_of_its_level_leaves(name):
    kind = registry.lookup("encoders/positional", name)
    assert kind.registered_name == name, "the outputs of transforms are named after the encoder; it has no second name"
    if kind.transform is not None and _is_column("encoders/positional", name):
        transform = registry.lookup("transforms", kind.transform)
        assert getattr(transform, "level", "node") == kind.level
