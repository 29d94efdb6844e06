"""Operators as nodes of compiled graphs: arguments of every kind, gradients, and what is refused."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from graphbench.layers.compiled import supported
from graphbench.ops import library
from graphbench.ops.library import library_op
from graphbench.ops.propagate import relu_sum
from graphbench.structures import Ragged
from tests.contract import example_batch

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # the compiler looks at what warns
    pytest.mark.skipif(not supported(), reason="needs a newer PyTorch"),
]


@dataclass(frozen=True)
class Affine:
    """An argument that is no tensor and holds one."""

    slope: Tensor
    offset: float


@library_op(lambda x, affine, ragged, steps, **_: (x.new_empty(x.shape), x.new_empty((ragged.num_graphs,)), 0))
def _mapped(
    x: Tensor, affine: Affine, ragged: Ragged, steps: list[int], *, name: str = "sum", flag: bool | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """An operator with arguments of all kinds."""
    assert name in ("sum", "mean")
    assert flag is None
    out = x * affine.slope + affine.offset
    for step in steps:
        out = out + step
    return out, torch.stack([part.sum() for part in out.split(ragged.sizes)]), x


@library_op(lambda x, value: x.new_empty(x.shape))
def _given(x: Tensor, value: object) -> Tensor:
    return x.clone()


@pytest.fixture(autouse=True)
def _forget_graphs() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_arguments_of_all_kinds(backend: str) -> None:
    def call(x: Tensor, slope: Tensor, ragged: Ragged, offset: float) -> tuple[Tensor, ...]:
        out, sums, same = _mapped(x * 2, Affine(slope, offset), ragged, [1, 2], name="mean")
        return out, sums, same + 1

    compiled = torch.compile(call, fullgraph=True, dynamic=True, backend=backend)
    for offset, sizes in ((0.5, (2, 3, 0)), (0.25, (1, 4)), (1.5, (2, 2, 2, 1))):
        ragged = Ragged.from_sizes(sizes)
        assert ragged.handle is not None
        results = []
        for function in (compiled, call):
            x, slope = torch.arange(float(sum(sizes))).requires_grad_(), torch.tensor(3.0).requires_grad_()
            out, sums, same = function(x, slope, ragged, offset)
            loss = out.square().sum() + sums.prod() + same.sum()
            results.append([out, sums, same, *torch.autograd.grad(loss, (x, slope))])
        torch.testing.assert_close(*results)


def test_an_output_without_gradient_has_none() -> None:
    batch = example_batch((4, 3), edge_dim=3, node_dim=3)
    adj = batch.adjacency()
    assert adj.handle is not None
    e = batch.edge_attr.clone().requires_grad_()

    def call(h: Tensor, e: Tensor) -> Tensor:
        return relu_sum(adj, h, e)[1] * 2

    out = torch.compile(call, fullgraph=True, backend="aot_eager")(batch.x, e)
    assert torch.equal(torch.autograd.grad(out.sum(), e)[0], torch.full_like(e, 2.0))


def test_what_is_no_value_is_refused() -> None:
    def call(x: Tensor) -> Tensor:
        return _given(x, {1, 2})

    with pytest.raises(torch._dynamo.exc.TorchDynamoException, match="cannot be handed a set"):
        torch.compile(call, fullgraph=True, backend="eager")(torch.ones(2))
    assert torch.equal(call(torch.ones(2)), torch.ones(2))


def test_a_batch_that_is_gone() -> None:
    ragged = Ragged.from_sizes((2, 3))
    handle = ragged.handle
    assert library.by_handle(handle) is ragged
    del ragged
    gc.collect()
    with pytest.raises(RuntimeError, match="a batch that is gone"):
        library.by_handle(handle)
