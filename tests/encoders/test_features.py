"""Encoders of node and edge features."""

from __future__ import annotations

import pytest
import torch

from graphbench import registry
from graphbench.encoders.edge.ast import ASTEdge
from graphbench.encoders.edge.bond import BOND_COLUMNS, Bond
from graphbench.encoders.edge.dummy import DummyEdge
from graphbench.encoders.edge.linear import LinearEdge
from graphbench.encoders.edge.ppa import PPAEdge
from graphbench.encoders.edge.superpixels import COCOEdge, VOCEdge
from graphbench.encoders.edge.type_dict import TypeDictEdge
from graphbench.encoders.node.ast import ASTNode
from graphbench.encoders.node.atom import ATOM_COLUMNS, CHIRALITY, Atom
from graphbench.encoders.node.atom_table import AtomTable
from graphbench.encoders.node.linear import LinearNode
from graphbench.encoders.node.ppa import PPANode
from graphbench.encoders.node.superpixels import COCONode, VOCNode
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


SUPERPIXELS = {"voc": (VOCNode, VOCEdge), "coco": (COCONode, COCOEdge)}


@pytest.mark.parametrize("name", SUPERPIXELS)
def test_superpixels_are_standardised_as_in_the_retuned_benchmark(golden, name):
    recorded = golden(f"lrgb/{name}_standardise")
    dim = recorded["config"]["dim"]
    node_kind, edge_kind = SUPERPIXELS[name]
    node, edge = node_kind(dim, standardize=True), edge_kind(dim, 2, standardize=True)
    x, edge_attr = recorded["in/x"], recorded["in/edge_attr"]
    batch = _batch(x, edge_attr, len(x), len(edge_attr))
    for encoder, kind, result in ((node, "node", "x"), (edge, "edge", "edge_attr")):
        assert torch.equal(encoder.shift, recorded[f"w/{kind}.mean"])
        assert torch.equal(encoder.scale, recorded[f"w/{kind}.std"])
        encoder.lin.load_state_dict({key: recorded[f"w/{kind}.lin.{key}"] for key in ("weight", "bias")})
        # float32 numbers of thousands of pixels, as recorded
        torch.testing.assert_close(encoder(batch), recorded[f"out/{result}"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", SUPERPIXELS)
def test_superpixels_are_plain_linear_maps_otherwise(name):
    node_kind, edge_kind = SUPERPIXELS[name]
    batch = _batch(torch.randn(3, 14), torch.randn(4))
    node, edge = node_kind(5), edge_kind(5, 1)
    torch.testing.assert_close(node(batch), batch.x @ node.lin.weight.T + node.lin.bias)
    torch.testing.assert_close(edge(batch), batch.edge_attr[:, None] @ edge.lin.weight.T + edge.lin.bias)
    assert list(node.state_dict()) == list(node_kind(5, standardize=True).state_dict())


def test_syntax_trees_share_the_table_row_of_great_depths():
    node, edge = ASTNode(4), ASTEdge(4)
    x = torch.tensor([[97, 10029, 20], [97, 10029, 21], [0, 3, 1]])
    batch = _batch(x, torch.tensor([[0, 0], [1, 0], [0, 1], [1, 1]]))
    h, e = node(batch), edge(batch)
    assert torch.equal(h[0], h[1])
    last = node.type_emb.weight[0] + node.attribute_emb.weight[3] + node.depth_emb.weight[1]
    torch.testing.assert_close(h[2], last)
    assert torch.equal(x[:, 2], torch.tensor([20, 21, 1])), "the batch stays as it was"
    torch.testing.assert_close(e[1], edge.type_emb.weight[1] + edge.direction_emb.weight[0])
    torch.testing.assert_close(e[2], edge.type_emb.weight[0] + edge.direction_emb.weight[1])


def test_ppa_nodes_are_all_alike_and_edges_are_mapped():
    node, edge = PPANode(4), PPAEdge(4)
    batch = _batch(edge_attr=torch.rand(4, 7))
    assert torch.equal(node(batch), node.type_emb.weight.repeat(3, 1))
    torch.testing.assert_close(edge(batch), batch.edge_attr @ edge.lin.weight.T + edge.lin.bias)


def test_parameters_as_in_the_originals():
    def count(module):
        return sum(parameter.numel() for parameter in module.parameters())

    d = 6
    assert count(LinearNode(d, 9)) == count(LinearEdge(d, 9)) == 10 * d
    assert count(TypeDictNode(d, 28)) == 28 * d
    assert count(TypeDictEdge(d, 4)) == 4 * d
    assert count(DummyEdge(d)) == count(PPANode(d)) == d
    assert count(PPAEdge(d)) == 8 * d
    assert count(ASTNode(d)) == (98 + 10_030 + 21) * d
    assert count(ASTEdge(d)) == 4 * d
    for standardize in (False, True):
        assert count(VOCNode(d, standardize=standardize)) == count(COCONode(d, standardize=standardize)) == 15 * d
        assert count(VOCEdge(d, 2, standardize=standardize)) == count(COCOEdge(d, 2, standardize=standardize)) == 3 * d
    assert count(VOCEdge(d, 1)) == 2 * d


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TypeDictNode(4, 0), "how many there are: 1 or more, received 0"),
        (lambda: TypeDictEdge(4, 0), "num_types must be at least 1, received 0"),
        (lambda: LinearNode(4, 0), "node_in = 0"),
        (lambda: LinearEdge(4, 0), "edge_in = 0"),
        (lambda: Atom(4, ogb_atom_vocabulary=6), "ogb_atom_vocabulary must be one of 4, 5; received 6"),
        (lambda: TypeDictNode(4, 3)(_batch(torch.tensor([[1], [3], [0]]))), r"3 categories \(0 to 2\).* from 0 to 3"),
        (lambda: TypeDictEdge(4, 2)(_batch(edge_attr=torch.tensor([-1, 0, 0, 0]))), "from -1 to 0"),
        (lambda: Atom(4)(_batch(torch.tensor([[0, 5, 0, 0, 0, 0, 0, 0, 0]]))), "column 1.* 5 categories"),
        (lambda: AtomTable(4, 173), "num_types must be at least 174, received 173"),
        (lambda: AtomTable(4, 174)(_batch(torch.zeros(3, 8, dtype=torch.int64))), r"9 columns.*\(3, 8\)"),
        (lambda: Atom(4)(_batch(torch.zeros(3, 8, dtype=torch.int64))), r"9 columns, received x of shape \(3, 8\)"),
        (lambda: Bond(4)(_batch(edge_attr=torch.zeros(4, dtype=torch.int64))), r"3 columns.*shape \(4,\)"),
        (lambda: LinearNode(4, 2)(_batch()), "have none"),
        (lambda: Bond(4)(_batch()), "DummyEdge"),
        (lambda: VOCNode(4, 3), "VOCNode reads 14 columns, received node_in = 3"),
        (lambda: COCONode(4)(_batch()), "COCONode reads node features, but these graphs have none"),
        (lambda: VOCEdge(4, 0), "VOCEdge needs edge features, received edge_in = 0"),
        (lambda: COCOEdge(4, 1, standardize=True), "COCOEdge: standardize knows the 2 columns.* edge_in = 1"),
        (lambda: PPAEdge(4, 3), "PPAEdge reads 7 columns, received edge_in = 3"),
        (lambda: ASTNode(4)(_batch(torch.zeros(3, 2))), r"type, attribute and depth, received x of shape \(3, 2\)"),
        (lambda: ASTNode(4)(_batch(torch.tensor([[98, 0, 0]]))), "ASTNode, type, has a vocabulary of 98"),
        (lambda: ASTNode(4)(_batch(torch.tensor([[0, 0, -1]]))), "ASTNode, depth, has a vocabulary of 21.* -1"),
        (lambda: ASTEdge(4)(_batch(edge_attr=torch.zeros(4, 3))), r"kind and direction.*shape \(4, 3\)"),
        (lambda: ASTEdge(4)(_batch(edge_attr=torch.tensor([[0, 2]]))), "ASTEdge, way, has a vocabulary of 2"),
    ],
)
def test_wrong_values_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_one_table_of_atoms_is_nine_tables_behind_each_other():
    one, nine = AtomTable(3, 200), Atom(3)
    with torch.no_grad():
        one.atom_emb.weight[:174] = torch.cat([each.weight for each in nine.atom_emb])
    batch = _batch(torch.stack([torch.randint(0, size, (20,)) for size in ATOM_COLUMNS], dim=1))
    torch.testing.assert_close(one(batch), nine(batch))


def test_names():
    nodes = {"LinearNode", "TypeDictNode", "Atom", "ASTNode", "PPANode", "VOCNode", "COCONode"}
    edges = {"LinearEdge", "TypeDictEdge", "Bond", "DummyEdge", "ASTEdge", "PPAEdge", "VOCEdge", "COCOEdge"}
    assert nodes <= set(registry.names("encoders/node"))
    assert edges <= set(registry.names("encoders/edge"))
