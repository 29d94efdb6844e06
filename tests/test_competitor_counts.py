"""Competitors have the parameters that papers and leaderboards print (four chirality classes, as counted then)."""

from __future__ import annotations

import pytest

from graphbench.config import load_config
from graphbench.preflight import describe
from study.shipped_sweeps import shipped_sweep
from tests.paths import ROOT

LEADERBOARD = {
    "gcn-vn-molhiv": 1_978_801,
    "gin-vn-molhiv": 3_336_306,
    "gcn-vn-molpcba": 2_017_028,
    "gin-vn-molpcba": 3_374_533,
    "gcn-vn-ppa": 1_930_537,
    "gin-vn-ppa": 3_288_042,
    "expc-ppa": 1_369_397,
}

WITHOUT_VIRTUAL_NODE = {
    "gcn-vn-molhiv": 527_701,
    "gin-vn-molhiv": 1_885_206,
    "gcn-vn-molpcba": 565_928,
    "gin-vn-molpcba": 1_923_433,
    "gcn-vn-ppa": 479_437,
    "gin-vn-ppa": 1_836_942,
}

MILLIONS = {"gcn-pcqm4m": 2.0, "gin-pcqm4m": 3.8, "gcn-vn-pcqm4m": 4.9, "gin-vn-pcqm4m": 6.7}
"""Rounded, as OGB-LSC prints them."""

LRGB = {
    **{"gatedgcn-pascal-lappe": 502, "gatedgcn-coco-lappe": 509, "gatedgcn-pcqm-contact-rwse": 524},
    **{"gatedgcn-peptides-func-rwse": 506, "gatedgcn-peptides-struct-rwse": 506},
    **{"san-pascal-rwse": 468, "san-coco-rwse": 474, "san-pcqm-contact-rwse": 509},
    **{"san-peptides-func-rwse": 500, "san-peptides-struct-rwse": 500},
    **{"gps-pascal-no-mpnn": 501, "gps-coco-no-mpnn": 508, "gps-pcqm-contact-no-mpnn": 502},
    **{"gps-peptides-func-no-mpnn": 488, "gps-peptides-struct-no-mpnn": 488},
}
"""Thousands, as the README of LRGB prints them."""

LARGE_GRAPHS = {
    "sgformer-proteins-mlp": 96_880,
    "sgformer-proteins-gcn": 96_880,
    "sgformer-arxiv-gcn": 110_120,
    # Before a BatchNorm maps of MLPs have no bias here.
    "sgformer-arxiv-mlp": 110_120 - 2 * 256,
    "sgformer-papers100m-mlp": 144_044 - 2 * 256,
    "sgformer-papers100m-sgc": 144_044 - 2 * 256,
    "sgformer-amazon2m-sign": 300 * 256 + 256 + 257 * 47,
    "sgformer-arxiv-sign": 3 * 128 * 256 + 256 + 257 * 40,
    "sgformer-proteins-nodeformer": 9 * 64 + 2 * 64 + 3 * (4 * 65 * 64 + 1 + 2 * 64) + 257 * 112,
    "sgformer-amazon2m-nodeformer": 101 * 64 + 2 * 64 + 3 * (4 * 65 * 64 + 1 + 2 * 64) + 257 * 47,
}
"""By the constructors of OGB's scripts (96,880 is on the leaderboard), of SGFormer's and of NodeFormer's release."""


def counts_in(sweep: str) -> dict[str, int]:
    return {entry.config.name: describe(entry.config).params for entry in shipped_sweep(sweep).entries}


def parameters(name: str, *overrides: str, folder: str = "ogb") -> int:
    config = load_config(ROOT / f"configs/{folder}/{name}.yaml", ["ogb_atom_vocabulary", "4", *overrides])
    return describe(config).params


@pytest.mark.parametrize("name", LEADERBOARD)
def test_count_of_the_leaderboard(name: str) -> None:
    assert parameters(name) == LEADERBOARD[name]
    if name in WITHOUT_VIRTUAL_NODE:
        assert parameters(name, "gt.OGBGNN.virtual_node", "false") == WITHOUT_VIRTUAL_NODE[name]


@pytest.mark.parametrize("name", MILLIONS)
def test_count_of_ogb_lsc(name: str) -> None:
    assert round(parameters(name) / 1e6, 1) == MILLIONS[name]


@pytest.mark.parametrize(("name", "published"), [("gcn-vn-code2", 12_484_310), ("gin-vn-code2", 13_841_815)])
def test_code2_has_one_row_more_in_every_edge_table(name: str, published: int) -> None:
    """The edge encoder has four categories, OGB's linear map of two columns three rows."""
    assert parameters(name) == published + 5 * 300


def test_pna_of_egc_on_code2() -> None:
    """Printed by its program, in the file of its pretrained models; edges are not read."""
    assert parameters("pna-code2") == 10_999_394


def test_graph_trans_has_the_same_rows_more() -> None:
    """Printed on the leaderboard of ogbg-code2: 9,053,246."""
    assert parameters("graphtrans-code2") == 9_053_246 + 5 * 300


def test_count_of_the_graph_transformer() -> None:
    """Table 1 of https://arxiv.org/abs/2012.09699; labels in SBMs are a table there and a map with a bias here.

    The trivial eigenvector is here, too: one row more in its map.
    """
    assert parameters("gt-zinc", folder="gnnbench") == 588_929 + 64
    assert parameters("gt-cluster", folder="gnnbench") == 524_026 + 80 + 80
    # Two classes are one logit here: 20 weights and a bias less.
    assert parameters("gt-pattern", folder="gnnbench") == 522_982 + 80 + 80 - 21


def test_counts_of_message_passing_in_the_gnn_benchmark() -> None:
    """Constructors of graphdeeplearning/benchmarking-gnns at b6c4077; tables of labels are maps with a bias here.

    PATTERN has one logit. Edges of SBMs have one learned state, there a map of a one with a bias, which GatedGCN gains
    and loses as many parameters by. It reads ZINC's bonds (GatedGCN-E).
    """
    gcn = {"zinc": 505_079, "mnist": 101_365, "cifar10": 101_657, "cluster": 501_687 + 172}
    gated = {"zinc": 504_309, "mnist": 104_217, "cifar10": 104_357, "cluster": 502_615}
    for name, published in {**gcn, "pattern": 500_823 + 172 - 44}.items():
        assert parameters(f"gcn-{name}", folder="gnnbench") == published
    for name, published in {**gated, "pattern": 502_223 - 20}.items():
        assert parameters(f"gatedgcn-{name}", folder="gnnbench") == published


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("peptides-func", 508_210),
        ("peptides-struct", 508_511),
        ("pascal", 495_901),
        ("coco", 509_161),
        ("pcqm-contact", 504_625),
    ],
)
def test_counts_of_gcn_in_lrgb(name: str, count: int) -> None:
    """By GraphGym's constructors with lrgb's files and five chirality classes."""
    assert parameters(f"gcn-{name}", "ogb_atom_vocabulary", "5", folder="lrgb") == count


def test_count_of_graph_trans_on_nci1() -> None:
    """By the constructor of its release with the settings of its command; two classes are one logit here."""
    assert parameters("graphtrans-nci1", folder="tu") == 885_639 - 129


def test_counts_of_the_leaderboards_of_molecules() -> None:
    assert parameters("deepergcn-molhiv") == 531_976
    assert parameters("deepergcn-molpcba") == 5_550_208
    assert parameters("pna-molhiv") == 326_081
    assert parameters("pna-molpcba") == 6_550_839
    assert parameters("dgn-molhiv") == 114_065
    assert parameters("dgn-molpcba") == 6_732_696
    assert parameters("gsn-molhiv") == 3_338_701
    assert parameters("gsn-directional-molhiv") == 114_211


def test_counts_of_gated_gcn_lspe() -> None:
    """By the constructor of its release; the last norm of the edges and a bias that centring removes are not here."""
    assert parameters("lspe-zinc", folder="gnnbench") == 522_870 - 2 * 59 - 20
    assert parameters("lspe-molpcba") == 1_068_721 - 2 * 118


def test_counts_of_gin_ak() -> None:
    """By the constructor of its release, of what it reads; biases of GIN's maps, which norms take out, are here too."""
    atoms, bonds, zinc = 173, 5 + 6 + 2, ("dataset.node_encoder_num_types", "21")
    tables = (atoms * 128 + 2 * (bonds * 144 + 4 * 16), atoms * 400 + 5 * (bonds * 416 + 4 * 16))
    assert parameters("ginak-molhiv") == 180_483 + tables[0] + 2 * 2 * 144
    assert parameters("ginak-molpcba") == 2_823_013 + tables[1] + 5 * 2 * 416
    tables_of_zinc = 21 * 128 + 6 * (4 * 144 + 4 * 16)
    assert parameters("ginak-zinc", *zinc, folder="gnnbench") == 915_719 + tables_of_zinc + 6 * 2 * 144


def test_counts_of_cin() -> None:
    """239,745 and 138,337 on the leaderboard; in both layers a map for messages to rings from above is never read."""
    for dim, published in ((64, 239_745), (48, 138_337)):
        assert parameters("cin-molhiv", "gnn.dim_inner", str(dim)) == published - 2 * (2 * dim + 1) * dim


def test_counts_of_mgt() -> None:
    """By the constructor of its release; norms of edge states that are not read are not here."""
    five = ("ogb_atom_vocabulary", "5")
    assert parameters("mgt-peptides-func", *five, folder="lrgb") == 470_658 - 2 * (10 + 84)
    assert parameters("mgt-peptides-struct", *five, folder="lrgb") == 470_658 - 2 * (10 + 84) + 85


def test_counts_of_deep_graph() -> None:
    """By the constructor of its release: layers, the encoder of motifs, the map before the head, norms, tokens."""
    for name, dim, inner, largest in (("zinc", 80, 80, 14), ("pattern", 80, 80, 11), ("cluster", 48, 96, 11)):
        square, norms = dim * dim + dim, 2 * dim
        layers = 48 * (4 * square + 2 * dim * inner + inner + dim + 2 * norms)
        around = largest**2 * dim + dim + 2 * square + 2 * norms + dim + 2 * 8
        features = {"zinc": 28 * dim, "pattern": 4 * dim, "cluster": 8 * dim}[name]
        degrees, types, spatial = (64, 4, 24) if name == "zinc" else (512, 0, 20)
        bias = (spatial + 1 + types + 8 * spatial) * 8
        head = dim + 1 if name != "cluster" else 6 * (dim + 1)
        expected = layers + around + features + 2 * degrees * dim + bias + head
        assert parameters(f"deepgraph-{name}", folder="gnnbench") == expected


def test_counts_of_sun() -> None:
    """By the constructor of its release, with marked roots and without."""
    zinc = ("dataset.node_encoder_num_types", "21")
    assert parameters("sun-zinc", *zinc, folder="gnnbench") == 527_225
    plain = ("gt.SUN.marked", "false", "gnn.dim_edge", "1536")
    assert parameters("sun-zinc", *zinc, *plain, folder="gnnbench") == 525_913


def test_count_of_crawl() -> None:
    """Printed on the leaderboard, 6,115,728, without tables of categories, which are one-hot codes there."""
    assert parameters("crawl-molpcba") == 6_115_728 + 78 * 173 + 9 * (5 + 6 + 2)


def test_count_of_egt() -> None:
    """89.3M printed: its atom table has 9 * 128 + 1 rows, its first map after the layers reads four virtual nodes."""
    rows, virtual_nodes = 9 * 128 + 1 - 173, 3 * 768 + 4 * 64
    assert round((parameters("egt-pcqm4m") + 768 * rows + 3 * 768 * 768 + virtual_nodes) / 1e6, 1) == 89.3


@pytest.mark.parametrize(
    ("name", "dim", "layers", "conv", "around"),
    [
        ("zinc", 64, 10, "gin", 28 * 36 + 4 * 64 + 40 + 21 * 28 + 2 * 65 * 64 + 65),
        ("pattern", 64, 6, "gcn", 4 * 48 + 64 + 14 + 8 * 16 + 65),
        ("cluster", 48, 16, "gcn", 8 * 32 + 48 + 12 + 7 * 16 + 49 * 6),
    ],
)
def test_counts_of_lgi_gt(name: str, dim: int, layers: int, conv: str, around: int) -> None:
    """By the constructor of its release; hidden layers of ZINC's head are narrower here, PATTERN has one logit."""
    square = dim * (dim + 1)
    network = 4 * dim**2 + 3 * dim
    local = square + (network if conv == "gin" else square + dim)
    layer = local + 4 * square + network + 6 * dim
    assert parameters(f"lgi-gt-{name}", folder="gnnbench") == layers * layer + around


def test_counts_of_models_that_read_labels() -> None:
    """CPGNN's networks have no biases in its release, here one after the last map; UniMP's arithmetic."""
    assert parameters("cpgnn-cora", folder="nodes") == 3 * 64 * (1433 + 7) + 7 + 7 * 7
    assert parameters("cpgnn-actor", folder="nodes") == 64 * (932 + 5) + 5 + 5 * 5
    first, last = 4 * 1434 * 128 + 3 * 128 + 256, (3 * 4 + 1) * 129 * 128 + 3 * 128
    assert parameters("unimp-cora", folder="nodes") == 7 * 1433 + first + last + 129 * 7


def test_counts_of_grit_s_other_files() -> None:
    """On PCQM4Mv2 the original builds 11,824,129: a misspelt key leaves two maps out."""
    assert parameters("grit-zinc", "dataset.node_encoder_num_types", "21", folder="gnnbench") == 473_473
    five = ("ogb_atom_vocabulary", "5")
    assert parameters("grit-pcqm4m", *five) == 11_824_129 + 2 * 16 * 256


@pytest.mark.slow
def test_counts_of_rows_that_a_sweep_describes() -> None:
    lrgb, large = counts_in("geco-table1-baselines"), counts_in("sgformer-table3")
    assert {name: lrgb[name] / 1000 for name in LRGB} == pytest.approx(LRGB, abs=1, rel=0)
    assert {name: large[name] for name in LARGE_GRAPHS} == LARGE_GRAPHS
    assert counts_in("geco-table4")["geco-arxiv-sage"] == 2 * 128 * 512 + 2 * 2 * 512**2 + 3 * 512 + 2 * 512 * 40 + 40
