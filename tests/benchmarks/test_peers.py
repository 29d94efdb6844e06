"""What trainings beside the peers' programs build, tiny: models of the same size, which learn; no time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from graphbench.benchmarks import peers
from graphbench.benchmarks.measuring import CPU, in_own_process
from graphbench.benchmarks.models import Prepared, Side
from graphbench.config import load_config
from graphbench.errors import UserError
from tests.benchmarks.test_epochs import write_molecules
from tests.paths import ROOT

CITATIONS = """
_base_: {base}
dataset: {{format: custom, name: citations, task: node, task_type: classification, transductive: true,
  split_mode: random, split: [10, 10, 10], custom: {{path: graph.pt}}}}
num_threads: 1
"""


def write_citations(folder: Path) -> Path:
    generator = torch.Generator().manual_seed(1)
    graph = {
        "x": torch.rand(30, 8, generator=generator),
        "edge_index": torch.randint(30, (2, 60), generator=generator),
        "y": torch.arange(30) % 3,
    }
    torch.save(graph, folder / "graph.pt")
    path = folder / "citations.yaml"
    path.write_text(CITATIONS.format(base=ROOT / "configs" / peers.CASES["Cora"].config[0]))
    return path


def test_what_is_measured_is_shipped() -> None:
    for each in peers.CASES.values():
        load_config(ROOT / "configs" / each.config[0], list(each.config[1:]))


@pytest.mark.parametrize(
    ("name", "write"),
    [("ZINC, GPS of PyG", write_molecules), ("Cora, SGFormer of PyG", write_citations)],
)
def test_models_of_pyg_are_of_the_same_size_and_learn(
    name: str, write: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch_geometric")
    monkeypatch.chdir(tmp_path)
    case = peers.CASES[name]
    of_zinc = ("gnn.head", "san_graph", "posenc_RWSE.raw_norm_type", "BatchNorm", "gt.attn_dropout", "0.5")
    ours = Prepared(Side(name, (str(write(tmp_path)), *(() if case.epoch else of_zinc))), CPU)
    once, model = case.build(None, ours)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    once()
    ours.train()
    moved = [not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True)]
    assert sum(moved) >= 0.9 * len(moved)
    if not case.epoch:  # norms that PyG's SGFormer cannot leave out are accounted for where it is built
        ours_has, peer_has = (sum(each.numel() for each in side.parameters()) for side in (ours.model, model))
        assert ours_has == peer_has


def test_what_fails_in_its_own_process_is_told_in_one_message() -> None:
    with pytest.raises(UserError, match=r"^theirs Cora: .*No module named graphbench\.benchmarks\.nobody"):
        in_own_process("nobody", message="theirs Cora")


def test_one_batch_of_the_training_graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = load_config(write_molecules(tmp_path), [])
    whole, few = peers.read_data(config).store, peers.one_batch(config).store
    assert few.num_graphs == config.tree.train.batch_size + 2
    for graph in range(few.num_graphs):  # the first 6 of the 8 graphs of the training set
        for name in ("x", "edge_index", "edge_attr", "y"):
            assert torch.equal(getattr(few.gather([graph]), name), getattr(whole.gather([graph]), name))


def test_generated_superpixels_have_the_sizes_of_the_data_set() -> None:
    config = load_config(ROOT / "configs/lrgb/gps-pascal.yaml", ["train.batch_size", "2"])
    store = peers.one_batch_of_superpixels(config).store
    assert store.num_graphs == 4
    assert 395 <= min(store.gather([0]).ragged.sizes) <= 500
    assert store.y.max() < 21
