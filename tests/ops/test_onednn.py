"""Products by oneDNN: where they are taken, and that they are products. Turned on here on every processor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import Tensor

from graphbench.ops import bucket_pairs, onednn
from graphbench.ops.bucket_pairs import accumulate, mix, scores
from graphbench.ops.linear import linear
from graphbench.ops.linear_attention import linear_attention
from graphbench.ops.softmax_attention import cpu, softmax_attention
from graphbench.structures import Ragged
from tests.ops.ragged_inputs import assert_within_budget, normal

pytestmark = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this PyTorch is built without oneDNN"
)


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, ...]]]:
    """Shapes of the rows of all products that oneDNN is asked for; no product is too small for it."""
    seen: list[tuple[int, ...]] = []
    product = onednn.product

    def seen_product(rows: Tensor, weight: Tensor, bias: Tensor | None = None, *, relu: bool = False) -> Tensor:
        seen.append(tuple(rows.shape))
        return product(rows, weight, bias, relu=relu)

    monkeypatch.setattr(onednn, "is_faster", lambda: True)
    monkeypatch.setattr(onednn, "_LEAST", 1)
    monkeypatch.setattr(onednn.applies, "__defaults__", (1,))
    monkeypatch.setattr(bucket_pairs, "_LEAST", 1)
    monkeypatch.setattr(onednn, "product", seen_product)
    return seen


@pytest.mark.parametrize("rows", [1, 33, 4100], ids=lambda rows: f"{rows} rows")
@pytest.mark.parametrize("act", ["identity", "relu"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_linear_maps(rows: int, act: str, bias: bool, products: list[tuple[int, ...]]) -> None:
    inputs = [normal(rows, 20), normal(37, 20), *([normal(37)] if bias else [])]

    def using(backend: str) -> Callable[..., Tensor]:
        return lambda *x: linear(*x, act=act, backend=backend)

    assert_within_budget(using("cpu"), using("reference"), inputs, draws=3)
    pieces = [(37, 2048)] * 2 if rows > 4096 else [(37, rows)]
    assert products == [(rows, 20), (rows, 37), *pieces]


def test_gradients_of_gradients(products: list[tuple[int, ...]]) -> None:
    """Of whole numbers, whose sums are exact in any order."""
    shapes = ((6, 4), (3, 4), (3,))
    h, weight, bias = (torch.randint(-3, 4, shape).float() for shape in shapes)
    h, weight, bias = (x.requires_grad_() for x in (h, weight, bias + 0.5))  # no entry at the kink of ReLU

    def second(backend: str) -> tuple[Tensor, ...]:
        out = linear(h, weight, bias, act="relu", backend=backend).square().sum()
        of_h, of_weight = torch.autograd.grad(out, (h, weight), create_graph=True)
        return torch.autograd.grad(of_h.square().sum() + of_weight.sum(), (h, weight, bias))

    torch.testing.assert_close(second("cpu"), second("reference"))
    assert products == [(6, 4), (6, 3), (3, 6)]  # forward, and the last backward pass through it


def test_strides_of_any_kind(products: list[tuple[int, ...]]) -> None:
    wide = torch.randint(-3, 4, (9, 3, 5)).float()
    for weight in (wide[:, 1], wide[:, 1].t(), wide[:, :, 2], wide[0, :, :].t()):
        rows = torch.randint(-3, 4, (7, 2 * weight.shape[1])).float()[:, ::2]
        torch.testing.assert_close(onednn.product(rows, weight), rows @ weight.t())
    for a in (wide[:, 1], wide[:, :, 2], wide[:, 0, :1].expand(9, 4)):
        torch.testing.assert_close(onednn.product_over_rows(a, wide[:, 2]), a.t() @ wide[:, 2])


@pytest.mark.parametrize("start", [0, 4])
def test_products_of_a_tile(start: int, products: list[tuple[int, ...]]) -> None:
    """Of whole numbers, whose sums are exact in any order."""
    q, k, v = (torch.randint(-3, 4, (1, n, 4)).float() for n in (5, 9, 9))
    weights, out, total = scores(q, k), torch.empty(1, 5, 4), torch.ones(1, 9, 4)
    torch.testing.assert_close(weights, q @ k.mT)
    mix(weights, v, out)
    torch.testing.assert_close(out, weights @ v)
    accumulate(total, slice(start, start + 5), weights.mT, q)
    torch.testing.assert_close(total, weights.mT @ q + (1 if start else 0))
    assert products == [(5, 4), (5, 9), (4, 5)]


def test_attention_of_large_graphs(products: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    """One head of 600 rows is more than a tile, so that sums over tiles are taken as well."""
    monkeypatch.setattr(cpu, "_LARGE", 1 << 30)
    ragged = Ragged.from_sizes([600, 2])

    def using(backend: str) -> Callable[..., Tensor]:
        return lambda q, k, v: softmax_attention(q, k, v, ragged, backend=backend)

    inputs = [normal(602, 2, 5) for _ in range(3)]
    assert_within_budget(using("cpu"), using("reference"), inputs, draws=3)
    assert len(products) == 2 * 2 * (2 + 5)  # tiles, heads, products forward and backward


@pytest.mark.parametrize("base", ["self", "uniform", "none"])
def test_linear_attention_of_one_graph(
    base: Literal["self", "uniform", "none"], products: list[tuple[int, ...]]
) -> None:
    ragged = Ragged.from_sizes([150])

    def using(backend: str) -> Callable[..., Tensor]:
        return lambda q, k, v: linear_attention(q, k, v, ragged, base=base, backend=backend)

    assert_within_budget(using("cpu"), using("reference"), [normal(150, 1, 6) for _ in range(3)], draws=3)
    assert products == [(150, 6)] * 4


def test_what_it_is_not_for(products: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    half, single, double = (torch.ones(2, 2, dtype=dtype) for dtype in (torch.float16, torch.float32, torch.float64))
    assert onednn.applies(single, single, 1)
    for operand in (half, double, single.to("meta")):
        assert not onednn.applies(operand, operand, 1)
    assert not onednn.applies(single, single, 0)
    with torch.autocast("cpu"):
        assert not onednn.applies(single, single, 1)
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    assert not onednn.applies(single, single, 1)


@pytest.mark.parametrize(
    ("vendor", "vectors", "expected"),
    [("AuthenticAMD", "AVX512", True), ("GenuineIntel", "AVX512", False), ("AuthenticAMD", "AVX2", False)],
)
def test_processors(vendor: str, vectors: str, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text(f"processor\t: 0\nvendor_id\t: {vendor}\n")
    monkeypatch.setattr(onednn, "_CPU_INFO", info)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: vectors)
    assert onednn.is_faster.__wrapped__() is expected
    monkeypatch.setattr(onednn, "_CPU_INFO", tmp_path / "none")
    assert onednn.is_faster.__wrapped__() is False
