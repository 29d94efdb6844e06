"""Raw files of data sets that are too large to keep: the published format and columns, a few random graphs.

Every writer takes the data root and puts the files where the family looks for them.
"""

from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from scipy import sparse
from scipy.io import savemat

PARTS = {"train": 8, "val": 4, "test": 4}
TOTAL = sum(PARTS.values())
NODES = 48
SMILES = [f"{'C' * (1 + number % 5)}OC(=O)N{'C' * (number % 3)}" for number in range(TOTAL)]


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _ring(nodes: int) -> torch.Tensor:
    node = torch.arange(nodes)
    return torch.cat([torch.stack([node, (node + 1) % nodes]), torch.stack([(node + 1) % nodes, node])], dim=1)


def _ranges() -> dict[str, np.ndarray]:
    ends = np.cumsum([0, *PARTS.values()])
    return {part: np.arange(low, high) for part, low, high in zip(PARTS, ends, ends[1:], strict=False)}


def _halves(nodes: int = NODES) -> list[np.ndarray]:
    order = _rng().permutation(nodes)
    return np.split(order, [nodes // 2, 3 * nodes // 4])


def _table(path: Path, rows: Iterable[object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (",".join(str(value) for value in np.atleast_1d(row)) for row in rows)
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))


def _folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


# ---------------------------------------------------------------- many graphs


def superpixels(root: Path, dataset: str, labels: Iterable[int]) -> None:
    rng, classes = _rng(), list(labels)
    folder = _folder(root / f"{dataset}/slic_compactness_30/edge_wt_region_boundary/raw")
    for part, count in PARTS.items():
        graphs = []
        for number in range(count):
            edges = _ring(5 + number)
            y = [int(each) for each in rng.choice(classes, 5 + number)]
            graphs.append((torch.rand(5 + number, 14), torch.rand(edges.shape[1], 2), edges, y))
        (folder / f"{part}.pickle").write_bytes(pickle.dumps(graphs))


def gnn_benchmark(root: Path, name: str) -> None:
    parts = []
    for count in PARTS.values():
        graphs = []
        for number in range(count):
            edges = _ring(6 + number)
            graph = {"edge_index": edges}
            if name in ("MNIST", "CIFAR10"):
                graph |= {"x": torch.rand(6 + number, 1 if name == "MNIST" else 3), "pos": torch.rand(6 + number, 2)}
                graph |= {"edge_attr": torch.rand(edges.shape[1]), "y": torch.tensor([number % 10])}
            else:
                width, classes = (3, 2) if name == "PATTERN" else (7, 6)
                graph["x"] = torch.eye(width)[torch.randint(0, width, (6 + number,))]
                graph["y"] = torch.arange(6 + number) % classes
            graphs.append(graph)
        parts.append(graphs)
    torch.save(parts, _folder(root / f"GNNBenchmarkDataset/{name}/raw") / f"{name}_v2.pt")


def circular_skip_links(root: Path) -> None:
    folder = _folder(root / "GNNBenchmarkDataset/CSL/raw")
    ring = np.roll(np.eye(11), 1, axis=0)
    matrices = [sparse.coo_matrix(ring + ring.T + np.eye(11)) for _ in range(50)]
    (folder / "graphs_Kary_Deterministic_Graphs.pkl").write_bytes(pickle.dumps(matrices))
    torch.save(torch.arange(50) % 10, folder / "y_Kary_Deterministic_Graphs.pt")


def aqsol(root: Path) -> None:
    folder = _folder(root / "AQSOL/raw")
    for part, count in PARTS.items():
        molecules = []
        for number in range(count):
            edges = _ring(3 + number).numpy()
            atoms, bonds = np.full(3 + number, number), np.ones(edges.shape[1], dtype=np.int64)
            molecules.append((atoms, bonds, edges, -0.5 * number))
        (folder / f"{part}.pickle").write_bytes(pickle.dumps(molecules))


def malnet_tiny(root: Path) -> None:
    raw = _folder(root / "MalNetTiny/raw")
    kinds, number = ("adware", "trojan", "benign", "addisplay", "downloader"), 0
    _folder(raw / "split_info_tiny/type")
    for part, count in PARTS.items():
        names = [f"{kinds[each % 5]}/a/{each}" for each in range(number, number + count)]
        number += count
        (raw / f"split_info_tiny/type/{part}.txt").write_text("".join(f"{name}\n" for name in names))
        for name in names:
            path = raw / f"malnet-graphs-tiny/{name}.edgelist"
            _folder(path.parent)
            path.write_text("# Directed graph\n0\t2\n1\t2\n2\t3\n5\t2\n")


def pcqm_contact(root: Path) -> None:
    folder = _folder(root / "pcqm4m-v2-contact/530k")
    contact = "CCCCCCO |atomProp:0.contact.0&#59;1:5.contact.0:6.contact.1|"
    rows = ["cxsmiles", *(text for _ in range(TOTAL) for text in (contact, *["CC"] * 5))]  # every sixth is read
    _folder(folder / "raw")
    (folder / "raw/pcqm4m-contact.tsv.gz").write_bytes(gzip.compress("\n".join(rows).encode()))
    torch.save(_ranges(), folder / "530k_shuffle_split_dict.pt")


def pcqm4m(root: Path) -> None:
    """The whole training part is 150,000 molecules longer; see the override of it in the test."""
    folder = _folder(root / "pcqm4m-v2/raw").parent
    rows = ["idx,smiles,homolumogap", *(f"{number},{each},{number / 4}" for number, each in enumerate(SMILES))]
    (folder / "raw/data.csv.gz").write_bytes(gzip.compress("\n".join(rows).encode()))
    ranges = _ranges()
    parts = {"train": np.concatenate([ranges["train"], ranges["val"]]), "valid": ranges["test"]}
    torch.save(parts | {"test-dev": np.array([0]), "test-challenge": np.array([1])}, folder / "split_dict.pt")


def peptides(root: Path, name: str, table: str, split: str, columns: dict[str, list[str]]) -> None:
    folder = _folder(root / f"{name}/raw").parent
    rows = zip(SMILES, *columns.values(), strict=True)
    text = "\n".join([",".join(["smiles", *columns]), *(",".join(row) for row in rows)])
    (folder / "raw" / table).write_bytes(gzip.compress(text.encode()))
    (folder / split).write_bytes(pickle.dumps({part: each.tolist() for part, each in _ranges().items()}))


def peptides_func(root: Path) -> None:
    labels = [f'"{[(row + column) % 3 % 2 for column in range(10)]}"' for row in range(TOTAL)]
    split = "splits_random_stratified_peptide.pickle"
    peptides(root, "peptides-functional", "peptide_multi_class_dataset.csv.gz", split, {"labels": labels})


def peptides_struct(root: Path, names: Iterable[str]) -> None:
    columns = {name: [f"{row / 7:.3f}" for row in range(TOTAL)] for name in names}
    split = "splits_random_stratified_peptide_structure.pickle"
    peptides(root, "peptides-structural", "peptide_structure_normalized_dataset.csv.gz", split, columns)


def _ogb_graphs(root: Path, name: str, split: str, tables: dict[str, Iterable[object]]) -> None:
    folder = root / f"ogb/{name}"
    for table, rows in tables.items():
        _table(folder / f"raw/{table}.csv.gz", rows)
    for part, numbers in zip(("train", "valid", "test"), _ranges().values(), strict=True):
        _table(folder / f"split/{split}/{part}.csv.gz", numbers)


def molpcba(root: Path) -> None:
    chain = [(node, node + 1) for _ in range(TOTAL) for node in range(3)]
    labels = [[("", 0, 1)[(row + task) % 3] for task in range(128)] for row in range(TOTAL)]
    tables = {
        "edge": chain,
        "num-node-list": [4] * TOTAL,
        "num-edge-list": [3] * TOTAL,
        "node-feat": [[5, 0, 4, 5, 3, 0, 2, 0, 0]] * (4 * TOTAL),
        "edge-feat": [[0, 0, 1]] * (3 * TOTAL),
        "graph-label": labels,
    }
    _ogb_graphs(root, "ogbg_molpcba", "scaffold", tables)


def ppa(root: Path) -> None:
    tables = {
        "edge": [(0, 1), (1, 2)] * TOTAL,
        "edge-feat": [[0.1] * 7] * (2 * TOTAL),
        "num-node-list": [3] * TOTAL,
        "num-edge-list": [2] * TOTAL,
        "graph-label": [number % 37 for number in range(TOTAL)],
    }
    _ogb_graphs(root, "ogbg_ppa", "species", tables)


def code2(root: Path) -> None:
    tables = {
        "edge": [(0, 1), (1, 2), (0, 3)] * TOTAL,
        "num-node-list": [4] * TOTAL,
        "num-edge-list": [3] * TOTAL,
        "node-feat": [(1, 10), (2, 11), (3, 12), (4, 13)] * TOTAL,
        "node_depth": [0, 1, 2, 1] * TOTAL,
        "node_is_attributed": [1, 0, 1, 1] * TOTAL,
        "graph-label": ["get the value", "run"] * (TOTAL // 2),
    }
    _ogb_graphs(root, "ogbg_code2", "project", tables)


# ---------------------------------------------------------------- one graph


def _random_edges(nodes: int = NODES, edges: int = 120) -> np.ndarray:
    return _rng().integers(0, nodes, (2, edges))


def _ogb_node(root: Path, name: str, split: str, tables: dict[str, Iterable[object]]) -> None:
    folder = root / f"ogb/{name}"
    _table(folder / "raw/edge.csv.gz", _random_edges().T)
    _table(folder / "raw/num-node-list.csv.gz", [NODES])
    for table, rows in tables.items():
        _table(folder / f"raw/{table}.csv.gz", rows)
    for part, numbers in zip(("train", "valid", "test"), _halves(), strict=True):
        _table(folder / f"split/{split}/{part}.csv.gz", numbers)


def arxiv(root: Path) -> None:
    x = _rng().standard_normal((NODES, 128)).round(3)
    tables = {"node-feat": x, "node-label": np.arange(NODES) % 40, "node_year": 2000 + np.arange(NODES) % 20}
    _ogb_node(root, "ogbn_arxiv", "time", tables)


def products(root: Path) -> None:
    x = _rng().standard_normal((NODES, 100)).round(3)
    _ogb_node(root, "ogbn_products", "sales_ranking", {"node-feat": x, "node-label": np.arange(NODES) % 47})


def proteins(root: Path) -> None:
    labels = _rng().integers(0, 2, (NODES, 112))
    tables = {"node-label": labels, "edge-feat": _rng().random((120, 8)).round(3), "species": [3702, 4932] * 24}
    _ogb_node(root, "ogbn_proteins", "species", tables)


def papers100m(root: Path) -> None:
    folder = root / "ogb/ogbn_papers100M"
    _folder(folder / "raw")
    x = _rng().standard_normal((NODES, 128)).astype(np.float32)
    np.savez_compressed(folder / "raw/data.npz", edge_index=_random_edges(), node_feat=x)
    np.savez_compressed(folder / "raw/node-label.npz", node_label=(np.arange(NODES) % 172)[:, None].astype(np.float32))
    for part, numbers in zip(("train", "valid", "test"), _halves(), strict=True):
        _table(folder / f"split/time/{part}.csv.gz", numbers)


def collab(root: Path) -> None:
    folder = root / "ogb/ogbl_collab"
    edges = _random_edges().T
    _table(folder / "raw/edge.csv.gz", edges)
    _table(folder / "raw/num-node-list.csv.gz", [NODES])
    _table(folder / "raw/node-feat.csv.gz", _rng().standard_normal((NODES, 128)).round(3))
    asked = {"edge": _random_edges(edges=60).T, "edge_neg": _random_edges(edges=80).T}
    _folder(folder / "split/time")
    for part in ("train", "valid", "test"):
        torch.save({"edge": edges} if part == "train" else asked, folder / f"split/time/{part}.pt")


def citation2(root: Path) -> None:
    folder = root / "ogb/ogbl_citation2"
    edges = _random_edges().T
    _table(folder / "raw/edge.csv.gz", edges)
    _table(folder / "raw/num-node-list.csv.gz", [NODES])
    _table(folder / "raw/node-feat.csv.gz", _rng().standard_normal((NODES, 128)).round(3))
    _folder(folder / "split/time")
    for part in ("train", "valid", "test"):
        links = edges if part == "train" else edges[:10]
        content = {"source_node": links[:, 0], "target_node": links[:, 1]}
        if part != "train":
            content["target_node_neg"] = _rng().integers(0, NODES, (10, 20))
        torch.save(content, folder / f"split/time/{part}.pt")


def shchur(root: Path, path: str, features: int, classes: int) -> None:
    adjacency = sparse.csr_matrix((_rng().random((NODES, NODES)) < 0.1).astype(np.float32))
    attributes = sparse.csr_matrix(_rng().integers(0, 2, (NODES, features)).astype(np.float32))
    arrays = {"labels": np.arange(NODES) % classes}
    for kind, matrix in (("adj", adjacency), ("attr", attributes)):
        arrays |= {f"{kind}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")}
    _folder((root / path).parent)
    np.savez(root / path, **arrays)


def graph_saint(root: Path, title: str, features: int, classes: int, several: bool = False) -> None:
    folder = _folder(root / f"{title}/raw")
    sparse.save_npz(
        folder / "adj_full.npz", sparse.csr_matrix((_rng().random((NODES, NODES)) < 0.1).astype(np.float32))
    )
    np.save(folder / "feats.npy", _rng().standard_normal((NODES, features)))
    labels = _rng().integers(0, 2, (NODES, classes)).tolist() if several else [node % classes for node in range(NODES)]
    (folder / "class_map.json").write_text(json.dumps({str(node): label for node, label in enumerate(labels)}))
    role = dict(zip(("tr", "va", "te"), (part.tolist() for part in _halves()), strict=True))
    (folder / "role.json").write_text(json.dumps(role))


def reddit(root: Path) -> None:
    folder = _folder(root / "Reddit/raw")
    kind = np.empty(NODES, dtype=np.int64)
    for number, part in enumerate(_halves(), start=1):
        kind[part] = number
    x, y = _rng().standard_normal((NODES, 602)), np.arange(NODES) % 41
    np.savez(folder / "reddit_data.npz", feature=x, label=y, node_types=kind)
    sparse.save_npz(folder / "reddit_graph.npz", sparse.coo_matrix(_rng().random((NODES, NODES)) < 0.1))


def web_pages(root: Path, name: str, features: int) -> None:
    folder = _folder(root / f"WebKB/{name}/raw")
    x = _rng().integers(0, 2, (NODES, features))
    rows = (f"{node}\t{','.join(map(str, x[node]))}\t{node % 5}" for node in range(NODES))
    (folder / "out1_node_feature_label.txt").write_text("\n".join(["node_id\tfeature\tlabel", *rows]) + "\n")
    edges = (f"{source}\t{target}" for source, target in _random_edges().T)
    (folder / "out1_graph_edges.txt").write_text("\n".join(["node_id\tnode_id", *edges]) + "\n")
    masks = {f"{part}_mask": np.isin(np.arange(NODES), numbers) for part, numbers in zip(PARTS, _halves(), strict=True)}
    for number in range(10):
        np.savez(folder / f"{name}_split_0.6_0.2_{number}.npz", **masks)


def _split_dicts(path: Path) -> None:
    split = dict(zip(("train", "valid", "test"), _halves(), strict=True))
    np.save(path, np.array([split] * 5, dtype=object), allow_pickle=True)


def deezer(root: Path) -> None:
    """The real features are 3.5 GB when dense; these are as wide."""
    folder = _folder(root / "deezer_europe")
    adjacency = sparse.csc_matrix((_rng().random((NODES, NODES)) < 0.1).astype(np.float64))
    x = sparse.random(NODES, 31241, density=0.001, format="csc", rng=_rng())
    savemat(folder / "deezer-europe.mat", {"A": adjacency, "features": x, "label": np.arange(NODES)[None] % 2})
    _split_dicts(folder / "deezer-europe-splits.npy")


def pokec(root: Path) -> None:
    folder = _folder(root / "LINKXDataset/pokec/raw")
    arrays = {"edge_index": _random_edges(), "node_feat": _rng().standard_normal((NODES, 65))}
    savemat(folder / "data.mat", arrays | {"label": np.arange(NODES) % 2, "num_nodes": NODES})
    _split_dicts(folder / "pokec-splits.npy")


def user_graphs(root: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    graphs = [
        {"edge_index": _ring(5), "x": torch.randn(5, 3, generator=generator), "y": torch.tensor(number % 2)}
        for number in range(TOTAL)
    ]
    torch.save(graphs, root / "graphs.pt")
