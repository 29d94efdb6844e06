from __future__ import annotations

from pathlib import Path

import pytest
import torch

from graphbench.config import load_config
from graphbench.data.store import GraphStore
from graphbench.encoders.positional.rrwp import RRWP
from graphbench.factory.data import declared_info
from graphbench.factory.model import build_model
from graphbench.factory.transforms import build_transforms
from graphbench.structures import GraphBatch
from graphbench.transforms.adjacency_powers import RandomWalkPowers
from tests.contract import example_batch
from tests.paths import ROOT


def walked(ksteps: int) -> GraphBatch:
    """Graphs of 4, 1 and 3 nodes with their random-walk probabilities."""
    batch = example_batch((4, 1, 3))
    first = batch.ragged.ptr[batch.ragged.graph_id[batch.edge_index[0]]]
    counts = torch.bincount(batch.ragged.graph_id[batch.edge_index[0]], minlength=3)
    store = GraphStore.from_arrays([4, 1, 3], counts, batch.edge_index - first)
    return batch.replace(pair_pe={"RRWP.powers": RandomWalkPowers(ksteps).exact(store)["powers"]})


def test_nodes_get_the_diagonal_and_pairs_everything() -> None:
    batch, encoder = walked(5), RRWP(8, ksteps=5).double()
    h = torch.randn(8, 10, dtype=torch.float64)
    encoded, after = encoder(h, batch)
    expected, pairs, first, row = h.clone(), [], 0, 0
    for size in (4, 1, 3):
        powers = batch.pair_pe["RRWP.powers"][first : first + size * size].view(size, size, 5)
        for node in range(size):
            expected[row + node, :8] += encoder.nodes.weight @ powers[node, node]
            pairs += [encoder.pairs.weight @ powers[node, other] for other in range(size)]
        first, row = first + size * size, row + size
    torch.testing.assert_close(encoded, expected)
    torch.testing.assert_close(after.state.edge_states["RRWP"], torch.stack(pairs))


@pytest.mark.parametrize("there", [None, 4])
def test_probabilities_that_are_not_there_are_refused(there: int | None) -> None:
    batch = example_batch((4,)) if there is None else walked(there)
    with pytest.raises(ValueError, match="RRWP reads 5 random-walk probabilities"):
        RRWP(8, ksteps=5).double()(torch.zeros(batch.num_nodes, 8, dtype=torch.float64), batch)


def test_files_of_grit_switch_the_encoder_on_without_naming_it(tmp_path: Path) -> None:
    (tmp_path / "grit.yaml").write_text(
        f"_base_: {ROOT}/configs/gnnbench/grit-zinc.yaml\ndataset: {{node_encoder_name: TypeDictNode}}\n"
        "gt: {attn: {clamp: 4.0, full_attn: true}, update_e: true}\n"
    )
    config, named = load_config(tmp_path / "grit.yaml"), load_config(ROOT / "configs/gnnbench/grit-zinc.yaml")
    assert config.tree.dataset.node_encoder_name == "TypeDictNode+RRWP"
    assert list(build_transforms(config)) == list(build_transforms(named)) == ["RRWP"]
    info = declared_info(config)
    assert info is not None
    model = build_model(config, info)
    assert [layer.clamp for layer in model.layers] == [4.0] * 10
