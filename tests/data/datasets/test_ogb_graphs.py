from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
import torch

from graphbench.data.datasets import ogb_graphs
from graphbench.data.datasets.ogb import OGB
from graphbench.data.datasets.ogb_graphs import ATOM_VOCABULARY, BOND_VOCABULARY, CODE2_END, encode_names
from graphbench.data.files.roots import Roots
from graphbench.data.store import GraphStore
from graphbench.errors import UserError
from tests.dataset_case import PublishedCounts, TrainingCase
from tests.raw_files import TOTAL, part_ranges, write_table


@pytest.mark.parametrize(
    ("name", "parts", "positives"),
    [  # counts of nodes and edges are on the card, which is checked
        ("ogbg-molbbbp", [1631, 204, 204], [1560]),
        ("ogbg-molesol", [902, 113, 113], None),
        ("ogbg-molfreesolv", [513, 64, 65], None),
        ("ogbg-mollipo", [3360, 420, 420], None),
        ("ogbg-molsider", [1141, 143, 143], None),
        ("ogbg-moltox21", [6264, 783, 784], None),
        pytest.param("ogbg-molhiv", [32901, 4113, 4113], [1232, 81, 130], marks=pytest.mark.slow),
    ],
)
def test_published_statistics(
    name: str, parts: list[int], positives: list[int] | None, shared_roots: Roots, no_reading: Callable[..., None]
) -> None:
    loaded = OGB(name).load(shared_roots)
    store, splits = loaded.store, loaded.published["standard"][0]
    assert [len(part) for part in splits.parts().values()] == parts
    assert store.y.shape == ((store.num_graphs,) if positives else (store.num_graphs, loaded.card.out_dim))
    if positives and len(positives) > 1:
        assert [int(store.y[part].sum()) for part in splits.parts().values()] == positives
    elif positives:
        assert store.y.sum().item() == positives[0]
    for tensor, kind in ((store.x, "node"), (store.edge_attr, "edge")):
        assert (tensor.amax(0).to(torch.int64) < torch.tensor(loaded.card.vocabularies[kind])).all()
    no_reading(ogb_graphs, "_graphs")
    assert OGB(name).load(shared_roots).store.fingerprint == store.fingerprint


def test_missing_labels_are_nan(shared_roots: Roots) -> None:
    loaded = OGB("ogbg_moltox21").load(shared_roots)
    assert loaded.store.y.isnan().sum().item() == 16_026
    assert (loaded.card.task_type, loaded.card.metric) == ("classification_multilabel", "auc")


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable", "ignore:Environment variable TORCH_FORCE")
def test_same_graphs_as_ogb_reads(data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = pytest.importorskip("ogb.graphproppred")
    shutil.copytree(data_root / "ogb/ogbg_molfreesolv", tmp_path / "ogbg_molfreesolv")
    for folder in [tmp_path / "ogbg_molfreesolv", *(tmp_path / "ogbg_molfreesolv").rglob("*")]:
        folder.chmod(0o755)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    expected = GraphStore.from_graphs(list(reader.PygGraphPropPredDataset("ogbg-molfreesolv", str(tmp_path))))
    # the layout of GraphGPS: directly below the root
    ours = OGB("ogbg-molfreesolv").load(Roots(tmp_path, (), tmp_path / "cache")).store
    for field in ("node_ptr", "edge_ptr", "edge_index", "x", "edge_attr", "y"):
        torch.testing.assert_close(getattr(ours, field), getattr(expected, field), check_dtype=False)


def test_vocabularies_are_those_of_the_encoders() -> None:
    from graphbench.encoders.edge.bond import BOND_COLUMNS
    from graphbench.encoders.node.atom import ATOM_COLUMNS

    assert (ATOM_VOCABULARY, BOND_VOCABULARY) == (ATOM_COLUMNS, BOND_COLUMNS)


def _write(folder: Path, **tables: str) -> None:
    for name, text in tables.items():
        path = folder / f"{name.replace('__', '/')}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()))


@pytest.mark.usefixtures("any_size")
def test_protein_associations(roots: Roots) -> None:
    folder = roots.directory / "ogb/ogbg_ppa"
    raw = {"edge": "0,1\n1,2\n0,1\n", "edge-feat": "0,.1,.2,.3,.4,.5,.6\n" * 2 + "1,1,1,1,1,1,1\n"}
    _write(folder / "raw", **raw, **{"num-node-list": "3\n2\n", "num-edge-list": "2\n1\n", "graph-label": "36\n0\n"})
    _write(folder / "split/species", train="1\n", valid="0\n", test="")
    loaded = OGB("ogbg-ppa").load(roots)
    batch = loaded.store.gather([0, 1])
    assert batch.edge_index.tolist() == [[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]]
    assert batch.x.tolist() == [[0]] * 5
    torch.testing.assert_close(batch.edge_attr[0], torch.tensor([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]))
    assert batch.edge_attr[4:].eq(1).all()
    assert batch.y.tolist() == [36, 0]
    assert [part.tolist() for part in loaded.published["standard"][0].parts().values()] == [[1], [0], []]


TREES = {  # a tree of four nodes with tokens at 0, 2 and 3; a single node; a chain of 1,002 nodes, all with tokens
    "edge": "0,1\n1,2\n0,3\n" + "".join(f"{i},{i + 1}\n" for i in range(1001)),
    "num-node-list": "4\n1\n1002\n",
    "num-edge-list": "3\n0\n1001\n",
    "node-feat": "1,10\n2,11\n3,12\n4,13\n97,10029\n" + "5,0\n" * 1002,
    "node_depth": "0\n1\n2\n1\n0\n" + "".join(f"{i}\n" for i in range(1002)),
    "node_is_attributed": "1\n0\n1\n1\n1\n" + "1\n" * 1002,
    "graph-label": "get the value\nrun\nget rare words of the corner\n",
}


@pytest.mark.usefixtures("any_size")
def test_syntax_trees(roots: Roots) -> None:
    folder = roots.directory / "ogb/ogbg_code2"
    _write(folder / "raw", **TREES)
    _write(folder / "split/project", train="1\n0\n", valid="2\n", test="")
    loaded = OGB("ogbg-code2").load(roots)
    store = loaded.store
    assert store.sizes.tolist() == [4, 1, 1000]
    first = store.gather([0])
    assert first.x.tolist() == [[1, 10, 0], [2, 11, 1], [3, 12, 2], [4, 13, 1]]
    assert first.edge_index.tolist() == [[0, 1, 0, 1, 2, 3, 0, 2, 2, 3], [1, 2, 3, 0, 1, 0, 2, 3, 0, 2]]
    assert first.edge_attr.tolist() == [[0, 0]] * 3 + [[0, 1]] * 3 + [[1, 0]] * 2 + [[1, 1]] * 2
    assert store.edge_counts.tolist() == [10, 0, 4 * 999]  # cut at 1,000 nodes
    assert store.x.amax(0).tolist() == [97, 10_029, 20]  # depth, too
    # words of the training names, all seen once, in the order of the split: run, get, the, value
    end = CODE2_END
    assert store.y[:2].tolist() == [[1, 2, 3, end, end, end], [0, end, end, end, end, end]]
    long = store.y[2].tolist()
    assert (long[0], long[4]) == (1, 2)
    assert len({*long[1:4], long[5]}) == 4  # four words that training never saw, each with a number of its own
    assert min(*long[1:4], long[5]) > end


def test_frequent_words_come_first_and_at_most_5000() -> None:
    names = [[f"w{number}"] for number in range(6000)] + [["w5999", "w5998", "w5999"]]
    rows = encode_names(names, range(6001))
    assert rows.shape == (6001, 5)
    assert rows[6000, :3].tolist() == [0, 1, 0]
    assert rows[0, 0] == 2
    known = rows[:6000, 0] < 5000
    assert known.sum() == 5000
    assert known[:4998].all()
    assert (rows[:6000, 0][~known] > CODE2_END).all()
    assert len(rows[:6000, 0].unique()) == 6000
    assert encode_names([["a", "b"]], []).tolist() == [[CODE2_END + 1, CODE2_END + 2] + [CODE2_END] * 3]


def test_the_task_understands_these_targets() -> None:
    subtokens = pytest.importorskip("graphbench.tasks.subtokens")
    rows = encode_names([["get", "the", "value"], ["get", "far", "too", "many", "words", "the"]], [0])
    predicted = torch.tensor([[0, 2, CODE2_END, 1, 1], [0, 1, 5000, CODE2_END, CODE2_END]])
    found, said, true = subtokens.set_sizes(predicted, rows.to(torch.int64), OGB("ogbg-code2").card.out_dim)
    assert (found.tolist(), said.tolist(), true.tolist()) == ([2, 2], [2, 3], [3, 6])


def test_messages(roots: Roots) -> None:
    folder = roots.directory / "ogb/ogbg_molhiv"
    raw = {"edge": "0,1\n", "num-node-list": "2\n", "num-edge-list": "1\n", "edge-feat": "0,0,0\n"}
    _write(folder / "raw", **raw, **{"node-feat": "5,0,4,5,3,0,2,0,0\n" * 2, "graph-label": "1\n"})
    _write(folder / "split/scaffold", train="0\n", valid="", test="")
    with pytest.raises(UserError, match=r"ogbg_molhiv: these are not the published ogbg-molhiv graphs: graphs 1"):
        OGB("ogbg-molhiv").load(roots)


def test_cards() -> None:
    pcba, code2, ppa = (OGB(f"ogbg-{name}").card for name in ("molpcba", "code2", "ppa"))
    assert (pcba.metric, pcba.out_dim, pcba.task_type) == ("ap", 128, "classification_multilabel")
    assert (code2.node_in, code2.edge_in, code2.out_dim, code2.metric) == (3, 2, 5002, "f1")
    assert (ppa.node_in, ppa.edge_in, ppa.out_dim, ppa.metric) == (1, 7, 37, "accuracy")
    assert not OGB("ogbg-molesol").card.maximize
    assert np.prod([OGB(name).card.maximize for name in ("ogbg-molhiv", "ogbg-code2")])


def write_training_files(root: Path, name: str, split: str, tables: dict[str, Iterable[object]]) -> None:
    folder = root / f"ogb/{name}"
    for table, rows in tables.items():
        write_table(folder / f"raw/{table}.csv.gz", rows)
    for part, numbers in zip(("train", "valid", "test"), part_ranges().values(), strict=True):
        write_table(folder / f"split/{split}/{part}.csv.gz", numbers)


def write_molecules(root: Path) -> None:
    tables = {
        "edge": [(node, node + 1) for _ in range(TOTAL) for node in range(3)],
        "num-node-list": [4] * TOTAL,
        "num-edge-list": [3] * TOTAL,
        "node-feat": [[5, 0, 4, 5, 3, 0, 2, 0, 0]] * (4 * TOTAL),
        "edge-feat": [[0, 0, 1]] * (3 * TOTAL),
        "graph-label": [[("", 0, 1)[(row + task) % 3] for task in range(128)] for row in range(TOTAL)],
    }
    write_training_files(root, "ogbg_molpcba", "scaffold", tables)


def write_associations(root: Path) -> None:
    tables = {
        "edge": [(0, 1), (1, 2)] * TOTAL,
        "edge-feat": [[0.1] * 7] * (2 * TOTAL),
        "num-node-list": [3] * TOTAL,
        "num-edge-list": [2] * TOTAL,
        "graph-label": [number % 37 for number in range(TOTAL)],
    }
    write_training_files(root, "ogbg_ppa", "species", tables)


def write_trees(root: Path) -> None:
    tables = {
        "edge": [(0, 1), (1, 2), (0, 3)] * TOTAL,
        "num-node-list": [4] * TOTAL,
        "num-edge-list": [3] * TOTAL,
        "node-feat": [(1, 10), (2, 11), (3, 12), (4, 13)] * TOTAL,
        "node_depth": [0, 1, 2, 1] * TOTAL,
        "node_is_attributed": [1, 0, 1, 1] * TOTAL,
        "graph-label": ["get the value", "run"] * (TOTAL // 2),
    }
    write_training_files(root, "ogbg_code2", "project", tables)


NARROW = {"gt.dim_hidden": 32, "gnn.dim_inner": 32}
TRAINING_CASES = {
    "ogbg-mol": TrainingCase(
        "ogb/gps-molhiv.yaml", real="ogb/ogbg_molbbbp", overrides={"dataset.name": "ogbg-molbbbp"}
    ),
    "ogbg-molpcba": TrainingCase("ogb/gps-molpcba.yaml", write=write_molecules, overrides=NARROW),
    "ogbg-ppa": TrainingCase("ogb/gps-ppa.yaml", write=write_associations, overrides=NARROW),
    "ogbg-code2": TrainingCase("ogb/gps-code2.yaml", write=write_trees, overrides=NARROW),
}
PUBLISHED_COUNTS = {
    "OGB/ogbg-molhiv": PublishedCounts(41127, 1049163, 2259376, 9, 2, (32901, 4113, 4113), slow=True),
    "OGB/ogbg-molbbbp": PublishedCounts(2039, 49068, 105842, 9, 2, (1631, 204, 204)),
    "OGB/ogbg-molesol": PublishedCounts(1128, 14991, 30856, 9, None, (902, 113, 113)),
    "OGB/ogbg-molfreesolv": PublishedCounts(642, 5600, 10770, 9, None, (513, 64, 65)),
    "OGB/ogbg-mollipo": PublishedCounts(4200, 113568, 247798, 9, None, (3360, 420, 420)),
    "OGB/ogbg-moltox21": PublishedCounts(7831, 145459, 302190, 9, None, (6264, 783, 784)),
    "OGB/ogbg-molsider": PublishedCounts(1427, 48006, 100912, 9, None, (1141, 143, 143)),
}
