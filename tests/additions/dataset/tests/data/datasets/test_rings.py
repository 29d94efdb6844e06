from __future__ import annotations

import torch

from graphbench.data.datasets.rings import Rings
from graphbench.data.files.roots import Roots
from tests.dataset_case import TrainingCase


def test_cycles_and_their_parity(roots: Roots) -> None:
    store = Rings(graphs=20, longest=7).load(roots).store
    sizes = store.node_ptr.diff()
    assert torch.equal(store.edge_ptr.diff(), 2 * sizes)
    assert torch.equal(store.y, sizes % 2)
    assert int(sizes.min()) >= 3
    assert int(sizes.max()) <= 7
    degree = torch.bincount(store.gather(range(20)).edge_index[1])
    assert torch.equal(degree, torch.full_like(degree, 2))


TRAINING_CASES = {"Rings": TrainingCase("synthetic/rings.yaml")}
