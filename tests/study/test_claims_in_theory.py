"""Claims of the papers that need no training: about formulas, sizes and the growth of work and memory.

study/claims.yaml names these tests. Growth is counted, not timed: multiplications of matrix products, and the numbers
that every operation writes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components, shortest_path
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from graphbench.config import load_config
from graphbench.data.generators import BlockModel, sbm_pattern
from graphbench.ops.circular_conv import circular_conv
from graphbench.ops.decay_attention import decay_attention
from graphbench.ops.focal_attention import focal_attention
from graphbench.ops.linear_attention import linear_attention
from graphbench.ops.softmax_attention import softmax_attention
from graphbench.preflight import describe
from graphbench.structures import HopNeighbors, PairBlocks, Ragged
from tests.paths import ROOT


class _Written(TorchDispatchMode):
    """Numbers written by every operation: in all, and by the largest one."""

    def __init__(self) -> None:
        super().__init__()
        self.total = self.largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                self.total += tensor.numel()
                self.largest = max(self.largest, tensor.numel())
        return out


def growth(operator: Callable[[int], Callable[[], Tensor]], nodes: int, factor: int) -> tuple[float, float, float]:
    """From ``nodes`` to ``factor`` times as many, forward and backward: multiplications, writing, largest tensor."""
    counts = []
    for n in (nodes, factor * nodes):
        run = operator(n)
        with FlopCounterMode(display=False) as products:
            run().sum().backward()
        with _Written() as written:
            run().sum().backward()
        counts.append((max(products.get_total_flops(), 1), written.total, written.largest))
    return tuple(after / before for before, after in zip(*counts))  # type: ignore[return-value]


def leaves(count: int, *shape: int) -> list[Tensor]:
    return [torch.randn(*shape, requires_grad=True) for _ in range(count)]


def linear(n: int) -> Callable[[], Tensor]:
    q, k, v = leaves(3, n, 2, 8)
    return lambda: linear_attention(q, k, v, Ragged.from_sizes([n]))


def softmax(n: int) -> Callable[[], Tensor]:
    q, k, v = leaves(3, n, 2, 8)
    return lambda: softmax_attention(q, k, v, Ragged.from_sizes([n]), backend="reference")


def convolution(n: int) -> Callable[[], Tensor]:
    u, filters = leaves(2, n, 8)
    return lambda: circular_conv(u, filters, Ragged.from_sizes([n]))


def focal(n: int) -> Callable[[], Tensor]:
    """A ring, two hops."""
    q, k, v = leaves(3, n, 2, 8)
    col = (torch.arange(n)[:, None] + torch.arange(-2, 3)).remainder(n)
    near = HopNeighbors(
        torch.arange(n + 1) * 5, col.view(-1), torch.tensor([2, 1, 0, 1, 2], dtype=torch.uint8).repeat(n)
    )
    return lambda: focal_attention(q, k, v, Ragged.from_sizes([n]), near, 2)


def test_the_instrument_sees_that_softmax_attention_is_quadratic() -> None:
    products, _, largest = growth(softmax, 256, 4)
    assert products > 15
    assert largest > 12


def test_linear_attention_is_linear_in_work_and_memory() -> None:
    assert max(growth(linear, 512, 4)) <= 4.01


def test_circular_convolutions_store_no_matrix_and_their_work_is_that_of_the_transforms() -> None:
    """Transforms are N log N by their algorithm; everything around them is linear."""
    products, written, largest = growth(convolution, 512, 4)
    assert products <= 4.01
    assert written <= 4.01
    assert largest <= 4.01


def test_focal_attention_with_lists_costs_a_constant_per_node() -> None:
    assert max(growth(focal, 512, 4)) <= 4.01


def test_a_decay_mask_adds_no_matrix_product() -> None:
    """Gradformer, section 3.3: as many multiplications as plain attention, forward and backward."""
    n = 64
    q, k, v = leaves(3, n, 2, 8)
    start = torch.ones(2, requires_grad=True)
    distances = torch.randint(0, 6, (n * n,), dtype=torch.uint8)
    ragged = Ragged.from_sizes([n])
    counts = []
    for run in (
        lambda: softmax_attention(q, k, v, ragged),
        lambda: decay_attention(q, k, v, ragged, distances, start, decay=0.5),
    ):
        with FlopCounterMode(display=False) as products:
            run().sum().backward()
        counts.append(products.get_total_flops())
    assert 0 < counts[1] <= counts[0]


def test_the_printed_step_of_the_proximal_iteration_diverges() -> None:
    """SFi-Former, section 3.3 and A.1.2: z <- shrink(z - tau (r z + alpha (sum z - 1)), tau f), lambda = 1.

    With tau = 1 / (alpha sqrt(n) + 1) as printed the distance to the constraint sum z = 1 grows with every step from
    n = 150 on; with the inverse of the Lipschitz constant the cost never rises.
    """
    n, alpha = 150, 1.0
    generator = torch.Generator().manual_seed(0)
    scores, frictions = torch.randn(2, n, dtype=torch.float64, generator=generator)
    r, f = torch.softmax(-scores, 0), torch.softmax(frictions, 0)

    def costs(step: float) -> list[float]:
        z, found = torch.softmax(scores, 0), []
        for _ in range(30):
            y = z - step * (r * z + alpha * (z.sum() - 1))
            z = y.sign() * (y.abs() - step * f).clamp(min=0)
            found.append(float((r * z * z / 2 + f * z.abs()).sum() + alpha * (z.sum() - 1) ** 2 / 2))
        return found

    printed, safe = costs(1 / (alpha * n**0.5 + 1)), costs(1 / (float(r.max()) + alpha * n))
    assert all(after > 10 * before for before, after in itertools.pairwise(printed[5:]))
    assert all(after <= before + 1e-12 for before, after in itertools.pairwise(safe))


def test_the_printed_count_of_peptides_func_does_not_follow_from_its_settings() -> None:
    """SFi-Former, Table 5: the same settings as Peptides-struct, but for what the two data sets bring along."""
    func, struct = (
        describe(load_config(ROOT / f"configs/lrgb/sfi-peptides-{task}.yaml")) for task in ("func", "struct")
    )
    assert struct.params == 3_819_425
    assert func.params != 2_929_009
    assert abs(func.params - struct.params) < 1000  # one class less in the head


def test_equal_weights_at_equal_distance_are_message_passing_over_hops() -> None:
    """FFGT, section 3.1: focal attention whose scores depend on the hop alone is the sum over the K-hop adjacencies."""
    n, reach = 12, 3
    apart = (torch.arange(n)[:, None] - torch.arange(n)).abs()
    hops = torch.minimum(apart, n - apart)  # a ring
    weight = torch.tensor([1.0, 0.5, 0.25, 2.0], dtype=torch.float64)
    v = torch.randn(n, 1, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = sum(weight[hop] * ((hops == hop).double() @ v[:, 0]) for hop in range(reach + 1))
    total = sum(weight[hop] * (hops == hop).sum(1, keepdim=True) for hop in range(reach + 1))

    zero = torch.zeros(n, 1, 5, dtype=torch.float64)
    bias = weight.log()[hops.clamp(max=reach)].view(-1, 1)
    near = PairBlocks(hops.to(torch.uint8).view(-1), (n,))
    found = focal_attention(zero, zero, v, Ragged.from_sizes([n]), near, reach, bias=bias)
    torch.testing.assert_close(found[:, 0], expected / total, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("p", "graphs", "nodes", "degree", "diameter"), [(0.16, 300, 125, 6.13, 6.15), (0.10, 800, 130, 4.85, 7.00)]
)
def test_printed_statistics_of_sbm_pattern_are_those_of_connected_graphs(
    p: float, graphs: int, nodes: float, degree: float, diameter: float
) -> None:
    """FFGT, Table 7. The generator of appendix B gives 118 nodes whatever p is; graphs in one piece are larger."""
    base = BlockModel(5, 5, 34, p, 0.01)
    store = sbm_pattern((graphs,), 0, base=base, pattern_sizes=(20, 20), pattern_p=p, pattern_q=0.05)
    assert 116 < store.sizes.double().mean() < 120
    found = []
    for graph in range(graphs):
        batch = store.gather([graph])
        n, edges = batch.num_nodes, batch.edge_index.numpy()
        adjacency = coo_matrix((np.ones(batch.num_edges), edges), shape=(n, n)).tocsr()
        if connected_components(adjacency, directed=False)[0] == 1:
            longest = shortest_path(adjacency, unweighted=True).max() if len(found) < 100 else np.nan
            found.append((n, batch.num_edges / n, longest))
    means = np.nanmean(np.array(found), axis=0)
    np.testing.assert_allclose(means, [nodes, degree, diameter], rtol=0.04)
    assert len(found) < graphs / 2
