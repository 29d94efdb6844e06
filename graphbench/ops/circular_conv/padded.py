"""Ragged batches on a GPU: graphs of several sizes are padded to one length and share their FFTs; few kernels run.

What is launched costs more than what is computed. So the gradient of the output is written backwards: its transform is
then the conjugate that both other gradients need, and these are read backwards. Folding, scaling and turning the
rows back is one sum of two entries. Notation: B graphs, S distinct sizes, R rows, L the length, c channels.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from graphbench.ops.segment import bag_sum

# Values handled at a time.
_CHUNK = 1 << 26
# Padded rows up to which graphs of any sizes are padded to the largest of them, and spectra are kept.
SMALL = 1 << 18


def length_of(largest: int) -> int:
    """L: the power of two that holds twice the largest graph."""
    return 2 << (largest - 1).bit_length()


class Padded:
    """Circular convolutions of graphs of several sizes, padded to L >= 2n and folded modulo the n of its graph.

    Args:
        of_graph: n of every graph, in the order of their rows.
        device: device of the rows.
    """

    def __init__(self, of_graph: np.ndarray, device: torch.device) -> None:
        sizes, number, counts = np.unique(of_graph, return_inverse=True, return_counts=True)
        length = length_of(int(sizes[-1]))
        self._rows, self._taps = _Positions(of_graph, length, device), _Positions(sizes, length, device)
        self._number = _on(device, number)
        self._by_size, self._ptr = (
            _on(device, np.argsort(number, kind="stable")),
            _on(device, np.append(0, counts.cumsum())),
        )
        # They are more than twice as wide as the rows.
        self.keeps_spectra = len(of_graph) * length <= SMALL

    def columns(self, width: int) -> list[slice]:
        """Channels to handle at a time."""
        step = max(1, _CHUNK // (self._rows.count * self._rows.length))
        return [slice(start, min(start + step, width)) for start in range(0, width, step)]

    def spectrum(self, rows: Tensor) -> Tensor:
        """(B, c, L / 2 + 1) complex, from (R, c)."""
        return self._rows.spectrum(rows, self._rows.forwards)

    def gradient_spectrum(self, rows: Tensor) -> Tensor:
        """Conjugate of :meth:`spectrum`, for the output's gradient."""
        return self._rows.spectrum(rows, self._rows.backwards)

    def filter_spectrum(self, taps: Tensor) -> Tensor:
        """(B, c, L / 2 + 1) complex, from the taps of every size."""
        return self._taps.spectrum(taps, self._taps.forwards).index_select(0, self._number)

    def convolve(self, u: Tensor, f: Tensor) -> Tensor:
        """(R, c) output, from spectra."""
        return self._rows.folded(u * f, self._rows.after)

    def rows_gradient(self, g: Tensor, f: Tensor) -> Tensor:
        """(R, c) gradient of the rows, from the output's gradient and the filters."""
        return self._rows.folded(g * f, self._rows.before)

    def taps_gradient(self, g: Tensor, u: Tensor) -> Tensor:
        """Gradient of the taps, from the output's gradient and the rows; graphs of a size are summed in their order."""
        products = torch.view_as_real(g * u)
        by_size = bag_sum(products.flatten(1), self._by_size, self._ptr).view(-1, *products.shape[1:])
        return self._taps.folded(torch.view_as_complex(by_size), self._taps.before)


def _on(device: torch.device, values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values)).to(device, non_blocking=True)


class _Positions:
    """Places of the entries of sequences of lengths n when every sequence is padded.

    Attributes:
        count: number of sequences.
        length: L.
        forwards: sequence and position of every entry t.
        backwards: sequence and position -t, around the end, of every entry t.
        after: entries t and t + n of every t, one after the other.
        before: entries -t and n - t: where t and t - n are when all is backwards.
    """

    def __init__(self, sizes: np.ndarray, length: int, device: torch.device) -> None:
        self.count, self.length = len(sizes), length
        number, size = np.repeat(np.arange(len(sizes)), sizes), np.repeat(sizes, sizes)
        t = np.arange(sizes.sum()) - np.repeat(sizes.cumsum() - sizes, sizes)
        minus_t, first = -t % length, length * number

        def pairs(one: np.ndarray, other: np.ndarray) -> Tensor:
            return _on(device, np.stack([first + one, first + other], axis=1).ravel())

        sequence = _on(device, number)
        self.forwards, self.backwards = (sequence, _on(device, t)), (sequence, _on(device, minus_t))
        self.after, self.before = pairs(t, t + size), pairs(minus_t, (size - t) % length)
        self._ptr = _on(device, np.arange(0, 2 * len(number) + 1, 2))
        self._scale: dict[torch.dtype, Tensor] = {}

    def spectrum(self, rows: Tensor, positions: tuple[Tensor, Tensor]) -> Tensor:
        """(count, c, L / 2 + 1) complex."""
        padded = rows.new_zeros(self.count, rows.shape[1], self.length)
        padded.transpose(1, 2).index_put_(positions, rows)
        return torch.fft.rfft(padded)

    def folded(self, spectrum: Tensor, pairs: Tensor) -> Tensor:
        """Rows from a spectrum, each the sum of a pair of entries."""
        long_BcL: Tensor = torch.fft.irfft(spectrum, n=self.length, norm="forward")  # not scaled
        if long_BcL.dtype not in self._scale:
            self._scale[long_BcL.dtype] = long_BcL.new_full((len(pairs),), 1 / self.length)
        return bag_sum(long_BcL.transpose(1, 2).flatten(0, 1), pairs, self._ptr, self._scale[long_BcL.dtype])
