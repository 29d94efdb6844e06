from __future__ import annotations

import pytest
import torch

from graphbench.data.store import GraphStore
from graphbench.transforms import cosine_similarity
from graphbench.transforms.cosine_similarity import CosineSimilarity

EDGES = torch.tensor([[0, 1, 2, 0, 0], [1, 2, 2, 1, 1]])


@pytest.mark.parametrize("rows", [1, 2, 1 << 16])
def test_by_hand(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cosine_similarity, "_ROWS", rows)
    # integers, zeros and opposite directions; the second graph begins with the fourth node
    x = torch.tensor([[3, 4], [6, 8], [0, 0], [1, 0], [-2, 2]], dtype=torch.int8)
    out = CosineSimilarity()(GraphStore.from_arrays([3, 2], [4, 1], EDGES, x=x))["similarity"]
    assert out.dtype == torch.float32
    assert out[:, 0].tolist() == pytest.approx([1, 0, 0, 1, -(0.5**0.5)])


def test_features_too_large_for_float32() -> None:
    store = GraphStore.from_arrays([2], [1], EDGES[:, :1], x=torch.full((2, 3), 1e30))
    assert CosineSimilarity()(store)["similarity"].tolist() == [[1]]


def test_no_features() -> None:
    with pytest.raises(ValueError, match="these nodes have none"):
        CosineSimilarity()(GraphStore.from_arrays([2], [1], EDGES[:, :1]))


def test_all_pairs_of_a_graph() -> None:
    x = torch.tensor([[3, 4], [6, 8], [0, 0], [1, 0], [-2, 2]], dtype=torch.int8)
    found = CosineSimilarity(pairs=True)
    assert found.level == "pair"
    far = found(GraphStore.from_arrays([3, 2], [4, 1], EDGES, x=x))["dissimilarity"]
    # a node without features is at 1 from all others, and at 0 from itself
    assert far[:9].tolist() == pytest.approx([0, 0, 1, 0, 0, 1, 1, 1, 0])
    assert far[9:].tolist() == pytest.approx([0, 1 + 0.5**0.5, 1 + 0.5**0.5, 0])
