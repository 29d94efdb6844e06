"""What the gradient of lam, a sum over rows that cancels, is the sum of: its error budget."""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.ops.sparse_flow import reference
from graphbench.ops.sparse_flow.scores import scores
from graphbench.structures import Ragged


def terms_of_lam(ragged: Ragged, inputs: list[Tensor], seed: Tensor, alpha: float) -> Tensor:
    """(G,) sum of the magnitudes that the gradient of lam is the sum of: that of a lam of every row."""
    totals = []
    *tensors, lam = (x.detach() for x in inputs)
    for size, strength, *parts in zip(ragged.sizes, lam, *(x.split(ragged.sizes) for x in (*tensors, seed))):
        q, k, qf, kf, v, grad = parts
        of_rows = strength.expand(q.shape[1], size, 1).clone().requires_grad_()
        z = reference.solve(scores(q, k), scores(qf, kf), of_rows, alpha)
        (terms,) = torch.autograd.grad(torch.einsum("hij,jhe->ihe", z, v), of_rows, grad)
        totals.append(terms.abs().sum())
    return torch.stack(totals)
