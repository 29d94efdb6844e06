"""BigBird: who sees whom, against dense masked attention, parameters."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from graphbench.layers.attention.bigbird import BigBird, visible_blocks, visible_pairs
from graphbench.layers.blocks.bigbird import BigBirdLayer
from graphbench.structures import GraphBatch
from tests.contract import CHECKS, Subject, check_batch_independence, example_batch, shaken

LONG = (50, 3, 0, 34, 33)  # 33 nodes are the last to see all


def seen_by(size: int, block_size: int = 3, random: int = 3, seed: int = 0) -> np.ndarray:
    """(size, size) how often row sees column."""
    seen, sees = visible_pairs(size, block_size, random, seed)
    counts = np.zeros((size, size), dtype=int)
    np.add.at(counts, (sees, seen), 1)
    return counts


@pytest.mark.parametrize("size", [0, 1, 5, 33])
def test_short_graphs_see_all(size: int) -> None:
    assert (seen_by(size) == 1).all()


@pytest.mark.parametrize(("size", "block_size", "random"), [(34, 3, 3), (100, 3, 3), (101, 4, 2), (65, 8, 0)])
def test_who_sees_whom_in_a_long_graph(size: int, block_size: int, random: int) -> None:
    counts, blocks = seen_by(size, block_size, random), -(-size // block_size)
    assert counts.max() == 1
    block = np.arange(size) // block_size
    table = np.zeros((blocks, blocks), dtype=bool)
    for i in range(blocks):
        for j in range(blocks):
            values = counts[np.ix_(block == i, block == j)]
            assert values.all() or not values.any()
            table[i, j] = values.all()
    assert table[0].all()
    assert table[-1].all()
    assert table[:, 0].all()
    assert table[:, -1].all()
    for i in range(1, blocks - 1):
        assert table[i, i - 1 : i + 2].all()
        window = {0, i - 1, i, i + 1, blocks - 1}
        assert table[i].sum() == len(window) + random


def test_random_blocks_come_from_the_whole_graph() -> None:
    seen, sees = visible_blocks(60, 3, np.random.default_rng(0))
    far = seen[(sees > 5) & (sees < 20) & (seen > 0) & (seen < 59)]
    assert (far > 40).any()


def test_seed_and_size_decide() -> None:
    assert (seen_by(90, seed=1) == seen_by(90, seed=1)).all()
    assert (seen_by(90, seed=1) != seen_by(90, seed=2)).any()


@pytest.mark.parametrize("use_bias", [False, True])
def test_equals_dense_attention_under_a_mask(use_bias: bool) -> None:
    batch, layer = example_batch(LONG), BigBird(12, 3, use_bias=use_bias).double()
    shaken(layer)
    rows = []
    for part in batch.x.split(list(batch.ragged.sizes)):
        q, k, v = (each(part).unflatten(1, (3, 4)).transpose(0, 1) for each in (layer.q, layer.k, layer.v))
        mask = torch.from_numpy(seen_by(len(part)) == 1)
        scores = (q @ k.mT / 2).masked_fill(~mask, -torch.inf)
        mixed = (torch.softmax(scores, 2) @ v).transpose(0, 1).flatten(1)
        x = layer.norm_attention(part + layer.out(mixed))
        rows.append(layer.norm_out(x + layer.lin_out(torch.relu(layer.lin_in(x)))))
    torch.testing.assert_close(layer(batch.x, None, batch), torch.cat(rows))


def test_full_attention() -> None:
    batch = example_batch((33, 7))
    sparse, full = BigBird(12, 3).double(), BigBird(12, 3, attention_type="original_full").double()
    full.load_state_dict(sparse.state_dict())
    torch.testing.assert_close(sparse(batch.x, None, batch), full(batch.x, None, batch))
    batch = example_batch((60,))
    assert not torch.allclose(sparse(batch.x, None, batch), full(batch.x, None, batch))


def _subject() -> Subject:
    module = shaken(BigBird(12, 3, hidden_dropout=0.3).double())
    return Subject(module, lambda m, b: {"h": m(b.x, None, b)}, {"h": "node"}, {"h": 12})


@pytest.mark.parametrize("check", [name for name in CHECKS if name != "permutation"])
def test_contract_on_long_graphs(check: str) -> None:
    CHECKS[check](_subject(), example_batch((40, 3, 55, 0)))


def test_order_of_the_nodes_matters_in_long_graphs() -> None:
    batch, layer = example_batch((60,)), BigBird(12, 3).double()
    order = torch.arange(60).flip(0)
    moved: GraphBatch = batch.replace(x=batch.x[order])
    assert not torch.allclose(layer(moved.x, None, moved), layer(batch.x, None, batch)[order])
    check_batch_independence(_subject(), example_batch(LONG))


def test_pairs_are_found_once_per_batch() -> None:
    batch, first, second = example_batch(LONG), BigBird(12, 3).double(), BigBird(12, 3).double()
    first(batch.x, None, batch)
    kept = dict(batch._memo)
    second(batch.x, None, batch)
    assert batch._memo == kept
    assert len(kept) == 1


@pytest.mark.parametrize("use_bias", [False, True])
def test_parameters_are_those_of_graphgps(use_bias: bool) -> None:
    """q, k, v; output and two feed-forward maps with biases; two norms."""
    d = 12
    expected = 3 * d * d + (3 * d if use_bias else 0) + 3 * d * (d + 1) + 4 * d
    for kind in (BigBird, BigBirdLayer):
        assert sum(each.numel() for each in kind(d, 3, use_bias=use_bias).parameters()) == expected


def test_layer_of_the_model_is_the_attention_of_gps() -> None:
    batch, part, layer = example_batch(LONG), BigBird(12, 3).double(), BigBirdLayer(12, 3).double()
    layer.load_state_dict(part.state_dict())
    h, e, after = layer(batch.x, batch.edge_attr, batch)
    torch.testing.assert_close(h, part(batch.x, None, batch))
    assert e is batch.edge_attr
    assert after is batch


def test_dropout_acts_in_training_only() -> None:
    batch, layer = example_batch(), BigBird(12, 3, hidden_dropout=0.5).double()
    assert not torch.equal(layer(batch.x, None, batch), layer(batch.x, None, batch))
    layer.eval()
    assert torch.equal(layer(batch.x, None, batch), layer(batch.x, None, batch))


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="dim=12, heads=5"):
        BigBird(12, 5)
    with pytest.raises(ValueError, match="'sparse'"):
        BigBird(12, 3, attention_type="sparse")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="block_size must be at least 1, received 0"):
        BigBird(12, 3, block_size=0)
    with pytest.raises(ValueError, match="'relun', did you mean 'relu'"):
        BigBird(12, 3, hidden_act="relun")
