"""Products of the tensor cores in Triton's interpreter, which otherwise multiplies everything in full precision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from triton._C.libtriton import ir
from triton.runtime import interpreter

# What a number of tf32 keeps of one of fp32: sign, exponent and ten bits.
_KEPT, _HALF = np.uint32(0xFFFFE000), np.uint32(0x1000)


def parts(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(tf32 part of a number, rounded as Triton does; tf32 part of the rest, cut off as the hardware does)."""
    large = ((x.view(np.uint32) + _HALF) & _KEPT).view(np.float32)
    small = np.where(np.isfinite(x), x - large, np.float32(0)).astype(np.float32)
    return large, (small.view(np.uint32) & _KEPT).view(np.float32)


@pytest.fixture(autouse=True)
def products_in_parts() -> Iterator[None]:
    """Products ``tf32x3`` of fp32 are three products of parts, in all tests that interpret kernels."""
    plain = interpreter.InterpreterBuilder.create_dot

    def create_dot(builder: Any, a: Any, b: Any, d: Any, precision: Any, most_imprecise: Any) -> Any:
        asked = precision == ir.INPUT_PRECISION.TF32x3
        if not asked or a.data.dtype != np.float32 or b.data.dtype != np.float32:
            return plain(builder, a, b, d, precision, most_imprecise)
        (a_large, a_small), (b_large, b_small) = (
            parts(np.ascontiguousarray(a.data)),
            parts(np.ascontiguousarray(b.data)),
        )
        product = np.matmul(a_small, b_large) + np.matmul(a_large, b_small) + np.matmul(a_large, b_large)
        return interpreter.TensorHandle(product + d.data, d.dtype.scalar)

    if torch.cuda.is_available():
        yield
        return
    with mock.patch.object(interpreter.InterpreterBuilder, "create_dot", create_dot):
        yield
