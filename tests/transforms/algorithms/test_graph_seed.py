import numpy as np

from graphbench.transforms.algorithms.graph_seed import graph_seed


def test_nodes_and_edges_decide_not_their_order() -> None:
    edges = np.array([[0, 1, 2, 5], [1, 2, 0, 5]], dtype=np.int32)
    seed = graph_seed(edges, 6)
    assert 0 <= seed < 2**63
    assert graph_seed(edges[:, ::-1].astype(np.int64), 6) == seed
    others = {
        graph_seed(edges[::-1], 6),
        graph_seed(edges, 7),
        graph_seed(edges[:, 1:], 6),
        graph_seed(np.repeat(edges, 2, axis=1), 6),
        graph_seed(edges[:, :0], 6),
        graph_seed(edges[:, :0], 0),
        seed,
    }
    assert len(others) == 7
