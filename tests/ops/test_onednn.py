"""Products by oneDNN: where they are taken, and that they are products. Turned on here on every processor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import Tensor

from graphbench.ops import onednn
from graphbench.ops.linear import linear
from graphbench.ops.linear_attention import linear_attention
from graphbench.structures import Ragged
from tests.ops.ragged_inputs import assert_within_budget, normal

pytestmark = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this PyTorch is built without oneDNN"
)


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, ...]]]:
    """Shapes of the rows that oneDNN is asked for; no product is too small for it, and a piece has two rows."""
    seen: list[tuple[int, ...]] = []
    of_piece = onednn._of_piece

    def seen_piece(rows: Tensor, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> Tensor:
        seen.append(tuple(rows.shape))
        return of_piece(rows, weight, bias, relu)

    monkeypatch.setattr(onednn, "is_faster", lambda: True)
    monkeypatch.setattr(onednn, "_LEAST", 1)
    monkeypatch.setattr(onednn, "_PIECE", 2)
    monkeypatch.setattr(onednn, "_of_piece", seen_piece)
    return seen


@pytest.mark.parametrize("rows", [1, 6, 33], ids=lambda rows: f"{rows} rows")
@pytest.mark.parametrize("act", ["identity", "relu"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_linear_maps(rows: int, act: str, bias: bool, pieces: list[tuple[int, ...]]) -> None:
    """Of any number of rows, by pieces of the same shapes: oneDNN keeps code for every shape that it has seen."""
    inputs = [normal(rows, 20), normal(37, 20), *([normal(37)] if bias else [])]

    def using(backend: str) -> Callable[..., Tensor]:
        return lambda *x: linear(*x, act=act, backend=backend)

    assert_within_budget(using("cpu"), using("reference"), inputs, draws=3)
    assert pieces == [*[(2, 20)] * (rows // 2), *[(2, 37)] * (rows // 2), *[(37, 2)] * (rows // 2)]


def test_gradients_of_gradients(pieces: list[tuple[int, ...]]) -> None:
    """Of whole numbers, whose sums are exact in any order."""
    shapes = ((6, 4), (3, 4), (3,))
    h, weight, bias = (torch.randint(-3, 4, shape).float() for shape in shapes)
    h, weight, bias = (x.requires_grad_() for x in (h, weight, bias + 0.5))  # no entry at the kink of ReLU

    def second(backend: str) -> tuple[Tensor, ...]:
        out = linear(h, weight, bias, act="relu", backend=backend).square().sum()
        of_h, of_weight = torch.autograd.grad(out, (h, weight), create_graph=True)
        return torch.autograd.grad(of_h.square().sum() + of_weight.sum(), (h, weight, bias))

    torch.testing.assert_close(second("cpu"), second("reference"))
    assert pieces == [*[(2, 4)] * 3, *[(2, 3)] * 3, *[(3, 2)] * 3]  # forward, and the last backward pass through it


def test_strides_of_any_kind(pieces: list[tuple[int, ...]]) -> None:
    wide = torch.randint(-3, 4, (9, 3, 5)).float()
    for weight in (wide[:, 1], wide[:, 1].t(), wide[:, :, 2], wide[0, :, :].t()):
        rows = torch.randint(-3, 4, (7, 2 * weight.shape[1])).float()[:, ::2]
        torch.testing.assert_close(onednn.product(rows, weight), rows @ weight.t())
    for a in (wide[:, 1], wide[:, :, 2], wide[:, 0, :1].expand(9, 4)):
        torch.testing.assert_close(onednn.product_over_rows(a, wide[:, 2]), a.t() @ wide[:, 2])


@pytest.mark.parametrize("base", ["self", "uniform", "none"])
def test_linear_attention_of_one_graph(base: Literal["self", "uniform", "none"], pieces: list[tuple[int, ...]]) -> None:
    ragged = Ragged.from_sizes([150])

    def using(backend: str) -> Callable[..., Tensor]:
        return lambda q, k, v: linear_attention(q, k, v, ragged, base=base, backend=backend)

    assert_within_budget(using("cpu"), using("reference"), [normal(150, 1, 6) for _ in range(3)], draws=3)
    assert pieces == [(2, 6)] * (4 * 75)


def test_what_it_is_not_for(pieces: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    half, single, double = (torch.ones(2, 2, dtype=dtype) for dtype in (torch.float16, torch.float32, torch.float64))
    assert onednn.applies(single, single, 1)
    for operand in (half, double, single.to("meta")):
        assert not onednn.applies(operand, operand, 1)
    assert not onednn.applies(single, single, 0)
    assert not onednn.applies(single[:1], single, 1)
    with torch.autocast("cpu"):
        assert not onednn.applies(single, single, 1)
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    assert not onednn.applies(single, single, 1)


@pytest.mark.parametrize(
    ("vendor", "family", "vectors", "expected"),
    [
        ("AuthenticAMD", 26, "AVX512", True),
        ("AuthenticAMD", 25, "AVX512", False),
        ("GenuineIntel", 6, "AVX512", False),
        ("AuthenticAMD", 26, "AVX2", False),
    ],
)
def test_processors(
    vendor: str, family: int, vectors: str, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text(f"processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: 17\n")
    monkeypatch.setattr(onednn, "_CPU_INFO", info)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: vectors)
    assert onednn.is_faster.__wrapped__() is expected
    monkeypatch.setattr(onednn, "_CPU_INFO", tmp_path / "none")
    assert onednn.is_faster.__wrapped__() is False
