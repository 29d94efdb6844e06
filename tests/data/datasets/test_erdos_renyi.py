from __future__ import annotations

from typing import Any

import pytest
import torch

from graphbench.data.datasets.erdos_renyi import ErdosRenyi
from graphbench.data.files.roots import Roots
from tests.dataset_case import TrainingCase


def test_an_undirected_graph_of_the_degree_asked_for(roots: Roots) -> None:
    loaded = ErdosRenyi(nodes=4096, features=5, classes=3).load(roots)
    batch = loaded.store.gather([0])
    source, target = batch.edge_index
    code, reverse = source * 4096 + target, target * 4096 + source
    assert torch.equal(code, reverse.sort().values)  # both directions, sorted
    assert code.unique().numel() == code.numel()
    assert not bool((source == target).any())
    # Pairs are independent: 10 (N - 1) / 2 edges with a standard deviation of their square root.
    assert abs(code.numel() / 2 - 4095 * 5) < 5 * (4095 * 5) ** 0.5
    assert batch.x.dtype == torch.float32
    assert float(batch.x.mean()) == pytest.approx(0, abs=0.05)
    assert float(batch.x.std()) == pytest.approx(1, abs=0.05)
    assert torch.bincount(batch.y, minlength=3).min() > 1200
    (split,) = loaded.published["standard"]
    split.check(4096)
    assert [part.numel() for part in split.parts().values()] == [2048, 1024, 1024]


def test_the_seed_of_the_data_set_decides(roots: Roots) -> None:
    prints = [ErdosRenyi(nodes=600, seed=seed).load(roots).store.fingerprint for seed in (0, 0, 1)]
    assert prints[0] == prints[1] != prints[2]
    assert not roots.directory.exists()


def test_defaults_are_the_published_ones() -> None:
    card = ErdosRenyi().card
    assert (card.statistics["nodes"], card.node_in, card.out_dim, card.metric) == (512, 108, 10, "accuracy")
    assert ErdosRenyi(classes=2).card.out_dim == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"nodes": 3}, r"nodes must lie in 4 \.\. 2\^31 - 1, received 3"),
        ({"degree": 513.0}, r"degree must lie in 0 \.\. 512 \(N\), received 513.0"),
        ({"features": 0}, "features must be at least 1, received 0"),
        ({"classes": 1}, "classes must be at least 2, received 1"),
        ({"seed": -1}, "seed must be at least 0, received -1"),
    ],
)
def test_wrong_sizes(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ErdosRenyi(**wrong)


TRAINING_CASES = {
    "Erdos-Renyi": TrainingCase("synthetic/sgformer-erdos-renyi.yaml", overrides={"dataset.ErdosRenyi.nodes": 512})
}
