"""Small graphs: the discrete Hartley transform as a product with its matrix, all graphs of a size in one call.

With ``cas x = cos x + sin x`` the transform ``X_k = sum_t cas(2 pi k t / n) x_t`` is real, as wide as x and, up to
1/n, its own inverse. Circular convolution becomes ``Y_k = U_k E_k + U_-k O_k`` with the even and odd parts E and O of
the filter's transform. Notation: R rows of all small graphs together, M taps of all their distinct sizes together.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor


class Hartley:
    """Circular convolutions of all small graphs of a batch.

    Args:
        sizes: distinct sizes, ascending.
        counts: graphs of each; their rows lie one after the other in the same order.
        device: device of the rows.
    """

    # They are no wider than the rows themselves.
    keeps_spectra = True

    def __init__(self, sizes: Sequence[int], counts: Sequence[int], device: torch.device) -> None:
        def on(parts: list[np.ndarray]) -> Tensor:
            return torch.from_numpy(np.concatenate(parts)).to(device, non_blocking=True)

        self._graphs = list(zip(counts, sizes, strict=True))
        self._filters = [(1, n) for n in sizes]
        of_graph = np.repeat(sizes, counts)
        starts = zip(np.cumsum(of_graph) - of_graph, of_graph, strict=True)
        self._minus_R = on([start + -np.arange(n) % n for start, n in starts])
        taps = list(zip(np.cumsum(sizes) - sizes, self._graphs, strict=True))
        self._minus_M = on([start + -np.arange(n) % n for start, (_, n) in taps])
        self._tap_R = on([np.tile(start + np.arange(n), count) for start, (count, n) in taps])
        self._half_M1 = on([np.full((n, 1), 0.5 / n) for n in sizes])

    def columns(self, width: int) -> list[slice]:
        """Channels to handle at a time."""
        return [slice(0, width)]

    def spectrum(self, rows: Tensor) -> Tensor:
        """(R, d) transforms of (R, d)."""
        return _transform(rows, self._graphs)

    def gradient_spectrum(self, rows: Tensor) -> Tensor:
        """(R, d) transforms of the output's gradient."""
        return self.spectrum(rows)

    def filter_spectrum(self, taps: Tensor) -> Tensor:
        """(2, M, d) even and odd part of the filters' transforms, divided by n for the way back."""
        plus = _transform(taps, self._filters)
        minus = plus.index_select(0, self._minus_M)
        return torch.stack([plus + minus, plus - minus]).mul_(self._half_M1.to(plus.dtype))

    def convolve(self, u: Tensor, f: Tensor) -> Tensor:
        """(R, d) output, from spectra."""
        product = u * f[0].index_select(0, self._tap_R)
        product.addcmul_(u.index_select(0, self._minus_R), f[1].index_select(0, self._tap_R))
        return self.spectrum(product)

    def rows_gradient(self, g: Tensor, f: Tensor) -> Tensor:
        """(R, d) gradient of the rows, from spectra of the output's gradient and of the filters."""
        product = g * f[0].index_select(0, self._tap_R)
        product.addcmul_(g.index_select(0, self._minus_R), f[1].index_select(0, self._tap_R), value=-1)
        return self.spectrum(product)

    def taps_gradient(self, g: Tensor, u: Tensor) -> Tensor:
        """(M, d) gradient of the filters, from spectra of the output's gradient and of the rows."""
        minus = u.index_select(0, self._minus_R)
        product = g * (u + minus)
        product.addcmul_(g.index_select(0, self._minus_R), u - minus, value=-1)
        total = torch.cat([block.sum(0) for block in _blocks(product, self._graphs)])
        return _transform(total, self._filters).mul_(self._half_M1.to(g.dtype))


def _blocks(rows: Tensor, shapes: list[tuple[int, int]]) -> list[Tensor]:
    parts = rows.split([count * n for count, n in shapes])
    return [part.view(*shape, -1) for part, shape in zip(parts, shapes)]


def _transform(rows: Tensor, shapes: list[tuple[int, int]]) -> Tensor:
    out = torch.empty_like(rows)
    for source, target in zip(_blocks(rows, shapes), _blocks(out, shapes)):
        count, n, _ = source.shape
        torch.bmm(_matrix(n, rows.dtype, rows.device).expand(count, n, n), source, out=target)
    return out


@lru_cache(maxsize=1024)
def _matrix(n: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """(n, n) cas(2 pi k t / n)."""
    turns = np.outer(np.arange(n), np.arange(n)) % n  # exact: the angle keeps its digits
    angle = 2 * np.pi / n * turns
    return torch.from_numpy(np.cos(angle) + np.sin(angle)).to(device, dtype)
