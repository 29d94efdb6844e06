from __future__ import annotations

import pickle
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.datasets import LRGBDataset as Reference

from graphbench.data.datasets.superpixels import COCO_CATEGORIES, COCOSuperpixels, VOCSuperpixels
from graphbench.data.files.roots import Roots
from graphbench.data.store import GraphStore
from graphbench.errors import UserError
from tests.dataset_case import TrainingCase

COUNTS = {"train": 3, "val": 1, "test": 2}


def _write_tiny(folder: Path, labels: tuple[int, ...], edge_columns: int = 2) -> Path:
    folder.mkdir(parents=True)
    generator = torch.Generator().manual_seed(0)
    rng = np.random.default_rng(0)
    for part, count in COUNTS.items():
        graphs = []
        for number in range(count):
            nodes, edges = 3 + number, 5
            x = torch.rand(nodes, 14, generator=generator, dtype=torch.float64)
            edge_attr = torch.rand(edges, edge_columns, generator=generator, dtype=torch.float64)
            edge_index = torch.randint(0, nodes, (2, edges), generator=generator)
            y = [int(label) for label in rng.choice(labels, nodes)]
            graphs.append((x, edge_attr.squeeze(1) if edge_columns == 1 else edge_attr, edge_index, y))
        (folder / f"{part}.pickle").write_bytes(pickle.dumps(graphs))
    return folder


@pytest.mark.parametrize(
    ("builder", "name", "labels"),
    [(VOCSuperpixels, "pascalvoc-sp", tuple(range(21))), (COCOSuperpixels, "coco-sp", COCO_CATEGORIES)],
)
@pytest.mark.usefixtures("any_size")
def test_same_graphs_as_pyg_reads(
    builder: type[VOCSuperpixels], name: str, labels: tuple[int, ...], roots: Roots, tmp_path: Path
) -> None:
    folder = f"{builder.folder}/slic_compactness_30/edge_wt_region_boundary/raw"
    shutil.copytree(_write_tiny(roots.directory / folder, labels), tmp_path / "pyg" / name / "raw")
    parts = [Reference(str(tmp_path / "pyg"), name, split=part) for part in COUNTS]
    expected = GraphStore.from_graphs([graph for part in parts for graph in part], "node")
    loaded = builder("edge_wt_region_boundary", 30).load(roots)
    for field in ("node_ptr", "edge_ptr", "edge_index", "x", "edge_attr", "y"):
        torch.testing.assert_close(getattr(loaded.store, field), getattr(expected, field))
    splits = loaded.published["standard"][0]
    assert [part.tolist() for part in splits.parts().values()] == [[0, 1, 2], [3], [4, 5]]


@pytest.mark.usefixtures("any_size")
def test_other_graphs_of_the_same_images_have_one_edge_column(roots: Roots) -> None:
    _write_tiny(roots.directory / "VOCSuperpixels/slic_compactness_10/edge_wt_only_coord/raw", (0, 20), edge_columns=1)
    loaded = VOCSuperpixels("edge_wt_only_coord", slic_compactness=10).load(roots)
    assert loaded.store.edge_attr.shape[1] == loaded.card.edge_in == 1
    assert loaded.card.name == "PascalVOC-SP-edge_wt_only_coord-10"


@pytest.mark.usefixtures("any_size")
def test_messages(roots: Roots) -> None:
    _write_tiny(roots.directory / "COCOSuperpixels/slic_compactness_30/edge_wt_region_boundary/raw", (0, 12))
    with pytest.raises(UserError, match="a category that COCO-SP does not have"):
        COCOSuperpixels("edge_wt_region_boundary", 30).load(roots)
    with pytest.raises(ValueError, match="slic_compactness must be one of 10, 30; received 20"):
        VOCSuperpixels("edge_wt_only_coord", 20)


def test_cards() -> None:
    voc, coco = VOCSuperpixels("edge_wt_region_boundary", 30).card, COCOSuperpixels("edge_wt_coord_feat", 30).card
    assert (voc.name, voc.task, voc.metric, voc.node_in, voc.edge_in, voc.out_dim) == (
        "PascalVOC-SP", "node", "f1", 14, 2, 21,
    )  # fmt: skip
    assert voc.statistics["nodes_per_graph"] == 479.40
    assert (coco.edge_in, coco.out_dim, dict(coco.statistics)) == (1, 81, {"graphs": 123_286})
    assert len(COCO_CATEGORIES) == 81


def write_training_files(builder: type[VOCSuperpixels | COCOSuperpixels], labels: tuple[int, ...], root: Path) -> None:
    _write_tiny(root / f"{builder.folder}/slic_compactness_30/edge_wt_region_boundary/raw", labels)


TRAINING_CASES = {
    "PascalVOC-SP": TrainingCase(
        "lrgb/gps-pascal.yaml", write=partial(write_training_files, VOCSuperpixels, tuple(range(21)))
    ),
    "COCO-SP": TrainingCase(
        "lrgb/gatedgcn-coco.yaml", write=partial(write_training_files, COCOSuperpixels, COCO_CATEGORIES)
    ),
}
