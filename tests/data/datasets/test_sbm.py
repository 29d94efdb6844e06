from __future__ import annotations

from pathlib import Path

import pytest

from graphbench import registry
from graphbench.data.datasets.sbm import SBM
from graphbench.data.files.roots import Roots
from tests import raw_files
from tests.dataset_case import TrainingCase

SMALL = {"train_graphs": 6, "val_graphs": 3, "test_graphs": 2}


def _roots(tmp_path: Path) -> Roots:
    return Roots(tmp_path / "own", (), tmp_path / "cache")


@pytest.mark.parametrize(
    ("name", "features", "node_in", "out_dim", "vocabularies"),
    [
        ("PATTERN", "one_hot", 3, 1, {}),
        ("CLUSTER", "one_hot", 7, 6, {}),
        ("PATTERN", "category", 1, 1, {"node": (3,)}),
        ("CLUSTER", "category", 1, 6, {"node": (7,)}),
    ],
)
def test_card_and_graphs_agree(
    name: str, features: str, node_in: int, out_dim: int, vocabularies: dict[str, tuple[int, ...]], tmp_path: Path
) -> None:
    builder = SBM(name, features=features, **SMALL)  # type: ignore[arg-type]
    assert (builder.card.node_in, builder.card.out_dim, builder.card.vocabularies) == (node_in, out_dim, vocabularies)
    loaded = builder.load(_roots(tmp_path))
    batch = loaded.store.gather(loaded.published["standard"][0].val)
    assert batch.num_graphs == 3
    assert batch.x.shape[1] == node_in
    assert batch.x.is_floating_point() == (features == "one_hot")
    assert [len(part) for part in loaded.published["standard"][0].parts().values()] == [6, 3, 2]
    assert not list(tmp_path.iterdir())  # generated, nothing read or written


def test_one_hot_and_category_are_the_same_signal(tmp_path: Path) -> None:
    one_hot = SBM("CLUSTER", **SMALL).load(_roots(tmp_path)).store
    category = SBM("CLUSTER", features="category", **SMALL).load(_roots(tmp_path)).store
    assert (one_hot.x.argmax(1) == category.x[:, 0]).all()
    assert (one_hot.x.sum(1) == 1).all()


def test_published_sizes_are_the_default() -> None:
    assert SBM("PATTERN").counts == (10_000, 2_000, 2_000)
    assert SBM("CLUSTER").counts == (10_000, 1_000, 1_000)
    assert SBM("CLUSTER").base.p == 0.55
    assert SBM("CLUSTER", p=0.3, communities=4).card.out_dim == 4


def test_seed_of_the_data_set_decides(tmp_path: Path) -> None:
    prints = [SBM("PATTERN", seed=seed, **SMALL).load(_roots(tmp_path)).store.fingerprint for seed in (0, 0, 1)]
    assert prints[0] == prints[1] != prints[2]


def test_every_argument_can_be_written_in_a_yaml() -> None:
    own = registry.parameters(registry.lookup("data/datasets", "SBM"))
    built = registry.construct(SBM, {"name": "PATTERN", "task": "node", "seed": 4, "q": 0.01})
    assert built.seed == 4
    assert {"train_graphs", "seed", "p", "q", "pattern_p", "pattern_q", "communities"} <= set(own)


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="at least one graph"):
        SBM("PATTERN", val_graphs=0)
    with pytest.raises(ValueError, match=r"p must lie in \[0, 1\]"):
        SBM("PATTERN", p=5)
    with pytest.raises(ValueError, match="received 'onehot'"):
        SBM("PATTERN", features="onehot")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="seed must be at least 0, received -1"):
        SBM("PATTERN", seed=-1)


TRAINING_CASES = {
    "SBM": TrainingCase(
        "synthetic/pattern-gps.yaml",
        overrides={f"dataset.SBM.{part}_graphs": count for part, count in raw_files.PARTS.items()},
    )
}
