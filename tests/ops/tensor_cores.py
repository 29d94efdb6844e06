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
_KEPT = np.uint32(0xFFFFE000)


def tf32(x: np.ndarray) -> np.ndarray:
    """What the tensor cores read of numbers of fp32: the last bits are cut off."""
    return (np.ascontiguousarray(x).view(np.uint32) & _KEPT).view(np.float32)


@pytest.fixture(autouse=True)
def products_in_tf32() -> Iterator[None]:
    """Products that ask for tf32 have no more of their operands, in all tests that interpret kernels."""
    plain = interpreter.InterpreterBuilder.create_dot

    def create_dot(builder: Any, a: Any, b: Any, d: Any, precision: Any, most_imprecise: Any) -> Any:
        if precision != ir.INPUT_PRECISION.TF32 or a.data.dtype != np.float32 or b.data.dtype != np.float32:
            return plain(builder, a, b, d, precision, most_imprecise)
        return interpreter.TensorHandle(np.matmul(tf32(a.data), tf32(b.data)) + d.data, d.dtype.scalar)

    if torch.cuda.is_available():
        yield
        return
    with mock.patch.object(interpreter.InterpreterBuilder, "create_dot", create_dot):
        yield
