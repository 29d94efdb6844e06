"""Products of float32 matrices by oneDNN, where the processor can do more than MKL lets it.

On processors of other makers MKL takes kernels of 256-bit vectors; oneDNN asks the processor itself, and where that
computes 512 bits at once is up to twice as fast. It writes code for every shape that is new to it, in 0.4 ms, and keeps
it as long as the process lives (about half a megabyte). So it gets pieces of always the same number of rows: batches of
graphs differ in theirs.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

_LEAST = 10 << 20
"""Multiplications of the smallest product that is worth it."""

_PIECE = 2048
"""Rows of a piece: few enough to stay within the cache, many enough for the call of an operator not to count."""

_CPU_INFO = Path("/proc/cpuinfo")

_WHOLE_VECTORS = 26
"""First family of AMD (Zen 5) that computes 512 bits at once. Family 25 takes them as two halves: there MKL is as fast,
and a third faster in the gradients of weights."""


@cache
def is_faster() -> bool:
    """Whether oneDNN's products are faster than MKL's here: 512-bit vectors in one piece, and not Intel's."""
    has_both = torch.backends.mkl.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    if not has_both or torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    try:
        info = _CPU_INFO.read_text()
    except OSError:  # no Linux
        return False
    family = re.search(r"^cpu family\s*: (\d+)$", info, re.MULTILINE)
    return "AuthenticAMD" in info and family is not None and int(family[1]) >= _WHOLE_VECTORS


def applies(a: Tensor, b: Tensor, multiplications: int) -> bool:
    """Whether :func:`product` takes these operands, and is worth it for so many multiplications.

    Args:
        a: rows.
        b: the other operand.
        multiplications: number of multiplications of the product.
    """
    return (
        not torch.compiler.is_compiling()  # first: to compare a traced size is a guard
        and multiplications >= _LEAST
        and a.shape[-2] >= _PIECE
        and a.device.type == b.device.type == "cpu"
        and a.dtype == b.dtype == torch.float32
        and is_faster()
        and bool(torch.backends.mkldnn.enabled)
        and not torch.is_autocast_enabled("cpu")
    )


def product(rows: Tensor, weight: Tensor, bias: Tensor | None = None, *, relu: bool = False) -> Tensor:
    """``rows weight^T + bias``, without gradients; what is left of whole pieces of rows by torch's own product.

    Args:
        rows: (R, d).
        weight: (f, d).
        bias: (f,), or None for 0.
        relu: apply ReLU.

    Returns:
        (R, f).
    """
    out = rows.new_empty(rows.shape[0], weight.shape[0])
    whole = rows.shape[0] - rows.shape[0] % _PIECE
    for start in range(0, whole, _PIECE):
        piece = slice(start, start + _PIECE)
        out[piece] = _of_piece(rows[piece], weight, bias, relu)
    rest = functional.linear(rows[whole:], weight, bias)
    out[whole:] = rest.relu_() if relu else rest
    return out


def product_over_rows(a: Tensor, b: Tensor) -> Tensor:
    """``a^T b``, (f, d) of (R, f) and (R, d), without gradients; added up over pieces of rows."""
    whole = a.shape[0] - a.shape[0] % _PIECE
    total = a[whole:].t() @ b[whole:]
    for start in range(0, whole, _PIECE):
        piece = slice(start, start + _PIECE)
        total.add_(_of_piece(a[piece].t(), b[piece].t()))
    return total


def _of_piece(rows: Tensor, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> Tensor:
    if not (weight.is_contiguous() or weight.t().is_contiguous()):
        weight = weight.contiguous()  # for other strides oneDNN has a loop that is a thousand times slower
    return torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "relu" if relu else "none", [], "")
