"""Ragged batches on a GPU: graphs of up to the same power of two of nodes share their FFTs, so that few kernels run.

Notation: B graphs, S distinct sizes, R rows, P the power of two, c channels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from graphbench.ops.segment import segment_sum
from graphbench.structures import Ragged

# Values handled at a time.
_CHUNK = 1 << 26


class Padded:
    """Circular convolutions of graphs of several sizes, padded to 2 P >= 2n and folded modulo each graph's own n.

    Args:
        sizes: n, ascending.
        counts: graphs of every size; rows of graphs of a size lie behind each other.
        device: where.
    """

    keeps_spectra = False  # they are more than twice as wide as the rows

    def __init__(self, sizes: Sequence[int], counts: Sequence[int], device: torch.device) -> None:
        self._length = 2 << (sizes[-1] - 1).bit_length()
        self._rows = _Places(np.repeat(sizes, counts), self._length, device)
        self._taps = _Places(np.asarray(sizes), self._length, device)
        self._of_size = Ragged.from_sizes(list(counts), device)

    def columns(self, width: int) -> list[slice]:
        """Channels to handle at a time."""
        step = max(1, _CHUNK // (self._rows.count * self._length))
        return [slice(start, min(start + step, width)) for start in range(0, width, step)]

    def spectrum(self, rows: Tensor) -> Tensor:
        """(B, P + 1, c) complex, from (R, c)."""
        return self._rows.spectrum(rows)

    def filter_spectrum(self, taps: Tensor) -> Tensor:
        """(S, P + 1, c) complex, from the taps of every size."""
        return self._taps.spectrum(taps)

    def convolve(self, u: Tensor, f: Tensor) -> Tensor:
        """(R, c) output, from spectra."""
        return self._rows.folded(u * self._for_graphs(f), self._rows.behind)

    def rows_gradient(self, g: Tensor, f: Tensor) -> Tensor:
        """(R, c) gradient of the rows, from spectra of the output's gradient and of the filters."""
        return self._rows.folded(g * self._for_graphs(f).conj(), self._rows.before)

    def taps_gradient(self, g: Tensor, u: Tensor) -> Tensor:
        """Gradient of the taps, from spectra of the output's gradient and of the rows."""
        products = torch.view_as_real(g * u.conj())
        by_size = segment_sum(products.flatten(1), self._of_size).view(-1, *products.shape[1:])
        return self._taps.folded(torch.view_as_complex(by_size), self._taps.before)

    def _for_graphs(self, f: Tensor) -> Tensor:
        return f.index_select(0, self._of_size.graph_id)


class _Places:
    """Where the entries of sequences of lengths n lie when each is padded.

    Attributes:
        count: of sequences.
        behind: entry t + n of every t.
        before: entry t - n, around the end.
    """

    def __init__(self, sizes: np.ndarray, length: int, device: torch.device) -> None:
        self.count, self._length = len(sizes), length
        number, size = np.repeat(np.arange(len(sizes)), sizes), np.repeat(sizes, sizes)
        within = np.arange(sizes.sum()) - np.repeat(sizes.cumsum() - sizes, sizes)
        places = (within, within + size, (within - size) % length)
        self._here, self.behind, self.before = (
            torch.from_numpy(number * length + each).to(device, non_blocking=True) for each in places
        )

    def spectrum(self, rows: Tensor) -> Tensor:
        """(count, P + 1, c) complex."""
        padded = rows.new_zeros(self.count * self._length, rows.shape[1]).index_copy_(0, self._here, rows)
        transformed: Tensor = torch.fft.rfft(padded.view(self.count, self._length, -1), dim=1)
        return transformed

    def folded(self, spectrum: Tensor, other: Tensor) -> Tensor:
        """Rows from a spectrum; entry ``other`` belongs to the same row."""
        long: Tensor = torch.fft.irfft(spectrum, n=self._length, dim=1).flatten(0, 1)
        return long.index_select(0, self._here) + long.index_select(0, other)
