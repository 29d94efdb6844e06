from __future__ import annotations

from pathlib import Path

import pytest
import torch

from graphbench.data.datasets.malnet_tiny import MalNetTiny
from graphbench.data.files.roots import Roots
from graphbench.errors import UserError
from tests.dataset_case import TrainingCase

HEADER = "# Directed graph\n# call graph\n# Nodes: 6 Edges: 5\n# x\n# FromNodeId\tToNodeId\n"
NAMES = {"train": ["trojan/a/1", "addisplay/b/2"], "val": ["benign/c/3"], "test": ["adware/d/4"]}


def _write_tiny(root: Path) -> None:
    raw = root / "MalNetTiny/raw"
    (raw / "split_info_tiny/type").mkdir(parents=True)
    for part, names in NAMES.items():
        (raw / f"split_info_tiny/type/{part}.txt").write_text("".join(f"{name}\n" for name in names))
        for name in names:
            path = raw / f"malnet-graphs-tiny/{name}.edgelist"
            path.parent.mkdir(parents=True)
            # 1 has a loop only, 4 nothing, 2 a loop besides an edge
            path.write_text(HEADER + "0\t2\n1\t1\n2\t2\n2\t3\n5\t2\n")


@pytest.mark.usefixtures("any_size")
def test_nodes_without_a_neighbour_are_left_out(roots: Roots) -> None:
    _write_tiny(roots.directory)
    loaded = MalNetTiny("none").load(roots)
    store = loaded.store
    assert store.sizes.tolist() == [4] * 4  # 0, 2, 3, 5
    assert store.gather([0]).edge_index.tolist() == [[0, 1, 1, 3], [1, 1, 2, 1]]
    assert store.y.tolist() == [4, 0, 2, 1]
    assert store.x.eq(1).all()
    assert [part.tolist() for part in loaded.published["standard"][0].parts().values()] == [[0, 1], [2], [3]]


@pytest.mark.usefixtures("any_size")
def test_local_degree_profile(roots: Roots) -> None:
    _write_tiny(roots.directory)
    store = MalNetTiny("LocalDegreeProfile").load(roots).store
    # out-degree; then smallest, largest, mean and standard deviation of the out-degrees of what a node points to
    one = torch.tensor([[1.0, 2, 2, 2, 0], [2, 0, 2, 1, 1], [0, 0, 0, 0, 0], [1, 2, 2, 2, 0]])
    torch.testing.assert_close(store.x, one.repeat(4, 1), atol=5e-3, rtol=0)
    assert MalNetTiny("LocalDegreeProfile").card.node_in == 5


@pytest.mark.usefixtures("any_size")
def test_a_changed_graph_is_noticed(roots: Roots) -> None:
    _write_tiny(roots.directory)
    before = MalNetTiny("none").load(roots).store
    (roots.directory / "MalNetTiny/raw/malnet-graphs-tiny/adware/d/4.edgelist").write_text(HEADER + "0\t1\n")
    after = MalNetTiny("none").load(roots).store
    assert (before.num_edges, after.num_edges) == (16, 13)


def test_messages(roots: Roots) -> None:
    _write_tiny(roots.directory)
    with pytest.raises(UserError, match="not the published MalNet-Tiny graphs: graphs 4 instead of 5000"):
        MalNetTiny("Constant").load(roots)
    (roots.directory / "MalNetTiny/raw/malnet-graphs-tiny/benign/c/3.edgelist").unlink()
    with pytest.raises(UserError, match=r"1 of 4 graphs of MalNet-Tiny are missing, first .*benign/c/3.edgelist"):
        MalNetTiny("Constant").load(roots)
    (roots.directory / "MalNetTiny/raw/split_info_tiny/type/val.txt").write_text("worm/c/3\n")
    path = roots.directory / "MalNetTiny/raw/malnet-graphs-tiny/worm/c/3.edgelist"
    path.parent.mkdir(parents=True)
    path.write_text(HEADER + "0\t1\n")
    with pytest.raises(UserError, match="'worm' is no class of MalNet-Tiny"):
        MalNetTiny("Constant").load(roots)


TRAINING_CASES = {"MalNet-Tiny": TrainingCase("gnnbench/gps-malnettiny.yaml", write=_write_tiny)}
