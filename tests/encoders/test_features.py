"""Encoders of node and edge features."""

from __future__ import annotations

import pytest
import torch

from graphbench import registry
from graphbench.encoders.edge.bond import BOND_COLUMNS, Bond
from graphbench.encoders.edge.dummy import DummyEdge
from graphbench.encoders.edge.linear import LinearEdge
from graphbench.encoders.edge.type_dict import TypeDictEdge
from graphbench.encoders.node.atom import ATOM_COLUMNS, CHIRALITY, Atom
from graphbench.encoders.node.linear import LinearNode
from graphbench.encoders.node.type_dict import TypeDictNode
from graphbench.structures import GraphBatch, Ragged


def _batch(x=None, edge_attr=None, nodes=3, edges=4):
    return GraphBatch(
        ragged=Ragged.from_sizes([nodes]),
        edge_index=torch.zeros(2, edges, dtype=torch.int64),
        x=x,
        edge_attr=edge_attr,
    )


@pytest.mark.parametrize("chirality", [4, 5])
def test_atom_and_bond_equal_ogb(golden, chirality):
    recorded = golden(f"ogb/encoders_chirality{chirality}")
    dim = recorded["config"]["emb_dim"]
    atom, bond = Atom(dim, ogb_atom_vocabulary=chirality).double(), Bond(dim).double()
    weights = {name[2:]: value.double() for name, value in recorded.items() if name.startswith("w/")}
    atom.load_state_dict({name: value for name, value in weights.items() if name.startswith("atom")})
    bond.load_state_dict({name: value for name, value in weights.items() if name.startswith("bond")})
    x, edge_attr = recorded["in/x"], recorded["in/edge_attr"]
    batch = _batch(x, edge_attr, len(x), len(edge_attr))
    h, e = atom(batch), bond(batch)
    torch.testing.assert_close(h, recorded["out/x"], rtol=0, atol=1e-12)
    torch.testing.assert_close(e, recorded["out/edge_attr"], rtol=0, atol=1e-12)
    ((h * recorded["in/grad_seed.x"]).sum() + (e * recorded["in/grad_seed.edge_attr"]).sum()).backward()
    for name, parameter in [*atom.named_parameters(), *bond.named_parameters()]:
        torch.testing.assert_close(parameter.grad, recorded[f"grad/{name}"].double(), rtol=0, atol=1e-12)
    assert sum(p.numel() for p in atom.parameters()) == recorded["config"]["parameters_atom"]
    assert sum(p.numel() for p in bond.parameters()) == recorded["config"]["parameters_bond"]
    sizes = list(ATOM_COLUMNS)
    sizes[CHIRALITY] = chirality
    assert sizes == recorded["out/atom_categories"].tolist()


@pytest.mark.filterwarnings("ignore")
def test_published_vocabularies_are_those_of_the_installed_ogb():
    features = pytest.importorskip("ogb.utils.features")
    assert list(ATOM_COLUMNS) == features.get_atom_feature_dims()
    assert list(BOND_COLUMNS) == features.get_bond_feature_dims()


def test_linear_encoders_are_one_affine_map():
    x, a = torch.randn(3, 5), torch.randn(4, 2)
    node, edge = LinearNode(7, 5), LinearEdge(6, 2)
    batch = _batch(x, a)
    torch.testing.assert_close(node(batch), x @ node.lin.weight.T + node.lin.bias)
    torch.testing.assert_close(edge(batch), a @ edge.lin.weight.T + edge.lin.bias)


def test_linear_edge_reads_a_plain_vector_of_distances():
    edge = LinearEdge(6, 1)
    distances = torch.randn(4)
    torch.testing.assert_close(edge(_batch(edge_attr=distances)), edge(_batch(edge_attr=distances[:, None])))


def test_linear_node_takes_integers():
    assert LinearNode(4, 2)(_batch(torch.tensor([[1, 0], [2, 3], [0, 0]]))).dtype == torch.float32


def test_type_dictionaries_look_up_their_first_column():
    node, edge = TypeDictNode(4, 3), TypeDictEdge(4, 2)
    batch = _batch(torch.tensor([[2], [0], [1]]), torch.tensor([1, 0, 0, 1]))
    assert torch.equal(node(batch), node.type_emb.weight[[2, 0, 1]])
    assert torch.equal(edge(batch), edge.type_emb.weight[[1, 0, 0, 1]])


def test_dummy_edge_gives_all_edges_one_vector_and_its_gradient_is_their_sum():
    edge = DummyEdge(4)
    e = edge(_batch(edges=5))
    assert e.shape == (5, 4)
    assert torch.equal(e, edge.type_emb.weight.repeat(5, 1))
    seed = torch.randn(5, 4)
    (e * seed).sum().backward()
    torch.testing.assert_close(edge.type_emb.weight.grad, seed.sum(0, keepdim=True))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TypeDictNode(4, 0), "num_types must be 1 or more, received 0"),
        (lambda: TypeDictEdge(4, 0), "num_types must be 1 or more, received 0"),
        (lambda: LinearNode(4, 0), "node_in = 0"),
        (lambda: LinearEdge(4, 0), "edge_in = 0"),
        (lambda: Atom(4, ogb_atom_vocabulary=6), "must be 4 or 5, received 6"),
        (lambda: TypeDictNode(4, 3)(_batch(torch.tensor([[1], [3], [0]]))), r"3 categories \(0 to 2\).* from 0 to 3"),
        (lambda: TypeDictEdge(4, 2)(_batch(edge_attr=torch.tensor([-1, 0, 0, 0]))), "from -1 to 0"),
        (lambda: Atom(4)(_batch(torch.tensor([[0, 5, 0, 0, 0, 0, 0, 0, 0]]))), "column 1.* 5 categories"),
        (lambda: Atom(4)(_batch(torch.zeros(3, 8, dtype=torch.int64))), r"9 columns, received x of shape \(3, 8\)"),
        (lambda: Bond(4)(_batch(edge_attr=torch.zeros(4, dtype=torch.int64))), r"3 columns.*shape \(4,\)"),
        (lambda: LinearNode(4, 2)(_batch()), "have none"),
        (lambda: Bond(4)(_batch()), "DummyEdge"),
    ],
)
def test_wrong_values_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_names():
    assert {"LinearNode", "TypeDictNode", "Atom"} <= set(registry.names("encoders/node"))
    assert {"LinearEdge", "TypeDictEdge", "Bond", "DummyEdge"} <= set(registry.names("encoders/edge"))
