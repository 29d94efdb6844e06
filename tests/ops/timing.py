"""Forward and backward times and fp32 errors of the operators: ``OMP_NUM_THREADS=1 python -m tests.ops.timing``.

Not collected by pytest; the READMEs of the operators quote its output.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from graphbench.ops.dropout import dropout
from graphbench.ops.linear_attention import linear_attention
from graphbench.ops.propagate import gated_mean, propagate, sum_at_target
from graphbench.ops.segment import segment_max, segment_softmax, segment_sum
from graphbench.ops.softmax_attention import softmax_attention
from graphbench.ops.sparse_linear import sparse_linear
from graphbench.structures import Ragged, SparseRows
from graphbench.structures.adjacency import adjacency

random = np.random.default_rng(0)
SIZES = {
    "ZINC-like, 32 x 23": random.normal(23, 4.5, 32).clip(9, 37).astype(int).tolist(),
    "Peptides-like, 32 x 150": random.gamma(3.2, 47, 32).clip(8, 444).astype(int).tolist(),
    "Peptides-like, 128 x 150": random.gamma(3.2, 47, 128).clip(8, 444).astype(int).tolist(),
    "Cora-like, 1 x 2708": [2708],
}


def milliseconds(function: Callable[[], Tensor], repeats: int = 7) -> float:
    """Best time of forward and backward."""
    best = float("inf")
    for _ in range(repeats + 1):
        start = time.perf_counter()
        out = function()
        if out.requires_grad:
            out.backward(torch.ones_like(out))
        best = min(best, time.perf_counter() - start)
    return 1e3 * best


def leaves(*shape: int, count: int = 3) -> list[Tensor]:
    return [torch.randn(*shape, requires_grad=True) for _ in range(count)]


def padded(q: Tensor, k: Tensor, v: Tensor, ragged: Ragged, p: float) -> Tensor:
    """The usual way: everything padded to the largest graph, one mask."""
    rows = torch.arange(ragged.num_rows) - ragged.ptr[ragged.graph_id] + ragged.graph_id * ragged.max_size
    cells = ragged.num_graphs * ragged.max_size

    def dense(x: Tensor) -> Tensor:
        return (
            x.new_zeros(cells, *x.shape[1:])
            .index_copy(0, rows, x)
            .view(-1, ragged.max_size, *x.shape[1:])
            .transpose(1, 2)
        )

    mask = torch.zeros(cells, dtype=torch.bool).index_fill(0, rows, True).view(-1, 1, 1, ragged.max_size)
    out = scaled_dot_product_attention(dense(q), dense(k), dense(v), attn_mask=mask, dropout_p=p)
    return out.transpose(1, 2).flatten(0, 1).index_select(0, rows)


def attention() -> None:
    for name, sizes in SIZES.items():
        ragged = Ragged.from_sizes(sizes)
        qkv = leaves(ragged.num_rows, 4, 24)
        for p in (0.0, 0.5):
            ours = milliseconds(lambda: softmax_attention(*qkv, ragged, dropout_p=p))  # noqa: B023
            peer = milliseconds(lambda: padded(*qkv, ragged, p), 2)  # noqa: B023
            print(f"softmax_attention  {name:26} dropout {p}: ours {ours:8.2f} ms, padded SDPA {peer:8.2f} ms")
        print(f"linear_attention   {name:26} ours {milliseconds(lambda: linear_attention(*qkv, ragged)):8.2f} ms")  # noqa: B023


def one_graph(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The usual way for linear attention: equation by equation in autograd, one graph only."""
    q, k = q / torch.linalg.vector_norm(q), k / torch.linalg.vector_norm(k)
    out = torch.einsum("nhd,hde->nhe", q, torch.einsum("nhd,nhe->hde", k, v)) + len(v) * v
    return out / (torch.einsum("nhd,hd->nh", q, k.sum(0)) + len(v)).unsqueeze(2)


def linear() -> None:
    for n in (2708, 19717):
        ragged, qkv = Ragged.from_sizes([n]), leaves(n, 1, 64)
        ours, peer = milliseconds(lambda: linear_attention(*qkv, ragged)), milliseconds(lambda: one_graph(*qkv))  # noqa: B023
        print(f"linear_attention   1 x {n:<22} ours {ours:8.2f} ms, formula in autograd {peer:8.2f} ms (H = 1, d = 64)")


def sparse_features() -> None:
    """Rows of the sizes and shares of nonzeros of Cora, PubMed and Deezer-Europe (which dense is 3.5 GB)."""
    for name, n, columns, share, dim in (
        ("Cora-like", 2708, 1433, 0.0127, 64),
        ("PubMed-like", 19717, 500, 0.1, 64),
        ("Deezer-like", 28281, 31241, 0.00108, 96),
    ):
        count = int(n * columns * share)
        ptr = torch.bincount(torch.randint(n, (count,)), minlength=n).cumsum(0)
        ptr = torch.cat([torch.zeros(1, dtype=torch.int64), ptr])
        rows = SparseRows(ptr, torch.randint(columns, (count,)), torch.ones(count), columns)
        weight = torch.randn(dim, columns, requires_grad=True)
        matrix = torch.sparse_csr_tensor(ptr, rows.column, rows.value, rows.shape)
        times = {
            "ours": milliseconds(lambda: sparse_linear(rows, weight)),  # noqa: B023
            "ours, forward": milliseconds(lambda: sparse_linear(rows, weight.detach())),  # noqa: B023
            "torch CSR, forward": milliseconds(lambda: matrix @ weight.detach().t()),  # noqa: B023
        }
        if n * columns < 1e8:
            times["dense"] = milliseconds(lambda: rows.dense() @ weight.t())  # noqa: B023
        print(f"sparse_linear      {name:26} " + ", ".join(f"{what} {ms:.2f} ms" for what, ms in times.items()))


def edges() -> None:
    n, e, d = 4800, 9800, 96
    edge_index = torch.randint(n, (2, e))
    h, s, t, v = leaves(n, d, count=4)
    (m,) = leaves(e, d, count=1)
    adj = adjacency(edge_index, n, norm="sym")
    weight = adj.weight.float()[:, None]

    def by_index_add() -> Tensor:
        return torch.zeros(n, d).index_add(0, edge_index[1], weight * h[edge_index[0]])

    def gated_by_index_add() -> Tensor:
        logit = t[edge_index[1]] + s[edge_index[0]] + m
        gate = torch.sigmoid(logit)
        total = torch.zeros(n, d).index_add(0, edge_index[1], gate * v[edge_index[0]])
        return total / (torch.zeros(n, d).index_add(0, edge_index[1], gate) + 1e-6)

    print(f"adjacency          built in {milliseconds(lambda: adjacency(edge_index, n, norm='sym').weight):8.2f} ms")
    ours = milliseconds(lambda: propagate(adj, h))
    print(f"propagate          ours {ours:8.2f} ms, index_add {milliseconds(by_index_add):8.2f} ms")
    print(f"sum_at_target      ours {milliseconds(lambda: sum_at_target(adj, m)):8.2f} ms")
    ours = milliseconds(lambda: gated_mean(adj, t, s, m, v)[0])
    print(f"gated_mean         ours {ours:8.2f} ms, index_add {milliseconds(gated_by_index_add):8.2f} ms")


def rows() -> None:
    ragged = Ragged.from_sizes(SIZES["Peptides-like, 32 x 150"])
    (x,) = leaves(ragged.num_rows, 96, count=1)
    for operator in (segment_sum, segment_max, segment_softmax):
        print(f"{operator.__name__:18} ours {milliseconds(lambda: operator(x, ragged)):8.2f} ms")  # noqa: B023
    for p in (0.1, 0.5):
        ours, peer = milliseconds(lambda: dropout(x, p)), milliseconds(lambda: torch.dropout(x, p, True))  # noqa: B023
        print(f"dropout            p {p}: ours {ours:8.2f} ms, torch {peer:8.2f} ms ({x.numel()} entries)")


def errors() -> None:
    """Relative fp32 errors of output and gradients, ours and the reference formula's, on 1 + 8 + 150 + 444 nodes."""
    ragged = Ragged.from_sizes([1, 444, 8, 150])
    exact = [torch.randn(603, 4, 24, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    single = [x.detach().float().requires_grad_() for x in exact]
    for operator in (softmax_attention, linear_attention):

        def run(inputs: list[Tensor], backend: str) -> list[Tensor]:
            out = operator(*inputs, ragged, backend=backend)  # noqa: B023
            return [
                out.detach(),
                *torch.autograd.grad(out, inputs, torch.cos(torch.arange(out.numel()).to(out)).view_as(out)),
            ]

        truth = run(exact, "reference")
        for backend in ("cpu", "reference"):
            found = [((a - b).norm() / b.norm()).item() for a, b in zip(run(single, backend), truth)]
            print(f"{operator.__name__} {backend}: " + ", ".join(f"{x:.1e}" for x in found))


if __name__ == "__main__":
    torch.manual_seed(0)
    attention()
    linear()
    edges()
    rows()
    sparse_features()
    errors()
