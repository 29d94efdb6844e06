"""Parts of a batch, one per thread: the same numbers whatever the number of threads, and failures that are told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from graphbench.ops.pair_parts import Part, in_threads
from graphbench.ops.sparse_flow import cpu, sparse_flow
from graphbench.structures import Ragged
from tests.ops.ragged_inputs import normal

SIZES = [30, 4, 0, 31, 29, 1]
HEADS = 3


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Torch with so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def parts(pairs: int = 1000) -> list[Part]:
    return Part.all_of(Ragged.from_sizes(SIZES).layout_for_pairs(HEADS, pairs), HEADS, pairs)


def test_every_graph_and_head_is_in_one_part() -> None:
    found = [(graph, head) for part in parts() for graph in part.bucket.graphs for head in range(HEADS)[part.heads]]
    assert sorted(found) == [(graph, head) for graph, size in enumerate(SIZES) if size for head in range(HEADS)]


@pytest.mark.parametrize("number", [1, 2, 5, 50])
def test_results_come_in_the_order_of_the_parts_without_a_gradient(number: int) -> None:
    seen: set[int] = set()

    def work(part: Part, own: list[int]) -> tuple[int, bool]:
        own.append(part.number)
        seen.add(threading.get_ident())
        return part.number, torch.is_grad_enabled()

    scratch: list[list[int]] = []
    with threads(number), torch.no_grad():
        found = in_threads(work, parts(), lambda: scratch.append([]) or scratch[-1])
        assert torch.get_num_threads() == number
    assert found == [(part.number, False) for part in parts()]
    assert sorted(number for of_thread in scratch for number in of_thread) == [part.number for part in parts()]
    assert len(seen) <= number


@pytest.mark.parametrize("number", [1, 3])
def test_a_failure_of_any_part_is_raised_and_threads_are_restored(number: int) -> None:
    def work(part: Part, _: None) -> None:
        if part.number >= 2:
            raise MemoryError(f"part {part.number}")

    with threads(number):
        with pytest.raises(MemoryError, match="part"):
            in_threads(work, parts(), lambda: None)
        assert torch.get_num_threads() == number


@pytest.mark.parametrize("p", [0.0, 0.3])
def test_numbers_do_not_depend_on_the_number_of_threads(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_PAIRS", 1000)
    ragged = Ragged.from_sizes(SIZES)
    inputs = [normal(ragged.num_rows, HEADS, 5) for _ in range(5)]
    lam = torch.tensor(0.05, dtype=inputs[0].dtype, requires_grad=True)
    results = []
    for number in (1, 2, 4):
        with threads(number):
            torch.manual_seed(3)
            out = sparse_flow(*inputs, ragged, lam=lam, dropout_p=p)
            results.append([out, *torch.autograd.grad(out.square().sum(), [*inputs, lam])])
    for others in results[1:]:
        for expected, found in zip(results[0], others, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)  # products may add in another order
    with torch.inference_mode(), threads(2):
        torch.manual_seed(3)
        torch.testing.assert_close(sparse_flow(*inputs, ragged, lam=lam, dropout_p=p), results[0][0].detach())
