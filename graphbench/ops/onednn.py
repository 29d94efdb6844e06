"""Products of float32 matrices by oneDNN, where the processor can do more than MKL lets it.

On processors of other makers MKL takes kernels of 256-bit vectors; oneDNN asks the processor itself, and with 512 bits
is up to twice as fast. It writes code for every shape that is new to it, which takes as long as a product of some ten
million operations: small products stay with MKL.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch
from torch import Tensor

_LEAST = 10 << 20
"""Multiplications of the smallest product that repays the code written for its shape when it comes back four times."""

_PIECE = 2048
"""Rows that one product over rows sums up: few enough to be transposed within the cache."""

_CPU_INFO = Path("/proc/cpuinfo")


@cache
def is_faster() -> bool:
    """Whether oneDNN's products are faster than MKL's here: 512-bit vectors, and not Intel's."""
    has_both = torch.backends.mkl.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    if not has_both or torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    try:
        return "GenuineIntel" not in _CPU_INFO.read_text()
    except OSError:  # no Linux
        return False


def applies(a: Tensor, b: Tensor, multiplications: int, least: int = _LEAST) -> bool:
    """Whether :func:`product` takes these operands, and is worth it for so many multiplications.

    Args:
        a: one operand.
        b: the other.
        multiplications: of the product.
        least: fewer are not worth it.
    """
    return (
        not torch.compiler.is_compiling()  # first: to compare a traced size is a guard
        and multiplications >= least
        and a.device.type == b.device.type == "cpu"
        and a.dtype == b.dtype == torch.float32
        and is_faster()
        and bool(torch.backends.mkldnn.enabled)
        and not torch.is_autocast_enabled("cpu")
    )


def product(rows: Tensor, weight: Tensor, bias: Tensor | None = None, *, relu: bool = False) -> Tensor:
    """``rows weight^T + bias``, without gradients.

    Args:
        rows: (R, d).
        weight: (f, d).
        bias: (f,), or None for 0.
        relu: apply ReLU.

    Returns:
        (R, f).
    """
    if not (weight.is_contiguous() or weight.t().is_contiguous()):
        weight = weight.contiguous()  # for other strides oneDNN has a loop that is a thousand times slower
    out: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "relu" if relu else "none", [], "")
    return out


def product_over_rows(a: Tensor, b: Tensor) -> Tensor:
    """``a^T b``, (f, d) of (R, f) and (R, d), without gradients; added up over pieces of rows."""
    rows = a.shape[0]
    if rows < 2 * _PIECE:
        return product(a.t(), b.t())
    whole = rows - rows % _PIECE
    total = product(a[:_PIECE].t(), b[:_PIECE].t())
    for start in range(_PIECE, whole, _PIECE):
        piece = slice(start, start + _PIECE)
        total.add_(product(a[piece].t(), b[piece].t()))
    return total.addmm_(a[whole:].t(), b[whole:])
