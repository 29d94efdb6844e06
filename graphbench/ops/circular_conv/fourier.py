"""Large graphs: real FFTs along the nodes, channel by channel, for all graphs of one size.

A length that is a product of small primes is transformed as it is. Any other is padded with zeros to L >= 2n and
folded afterwards: entry t of the linear convolution belongs to t mod n. Notation: B graphs of n nodes, c channels.
"""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.structures import Ragged

# Values handled at a time. Pieces of 32 MB and more go back to the system when they are freed; with smaller ones the
# heap grew to half as much again.
_CHUNK = 1 << 23
# The same outside of the CPU: all channels of a graph of 2 million nodes.
CHUNK_ELSEWHERE = 1 << 28
# Channels of one cache line: reading fewer of a row wastes bandwidth.
_LINE = 16
# Rows that are turned into columns at a time; they stay in the cache of one core.
_TILE = 1 << 12
# torch's CPU library transforms longer sequences well only if their length is a power of two (README).
_LONG = 1 << 18

# Nodes from which a GPU gains by rows that lie channel by channel: below, what counts is the number of kernels.
COLUMNS_FROM = 1 << 15


def reads_columns(ragged: Ragged) -> bool:
    """Whether rows that lie channel by channel in memory spare the operator a copy: one long graph, not on a CPU."""
    return ragged.device.type != "cpu" and ragged.num_graphs == 1 and ragged.num_rows >= COLUMNS_FROM


class Fourier:
    """Circular convolutions of all graphs of one size.

    Args:
        size: n.
        count: B.
        chunk: values to handle at a time; the default is that of the CPU.
    """

    def __init__(self, size: int, count: int, chunk: int | None = None) -> None:
        self._size, self._count, self._chunk = size, count, _CHUNK if chunk is None else chunk
        self._length = size if _is_smooth(size) else _padded(2 * size)
        # Spectra of padded rows are twice as wide as the rows: better computed anew.
        self.keeps_spectra = self._length == size

    def columns(self, width: int) -> list[slice]:
        """Channels to handle at a time."""
        step = max(_LINE, self._chunk // (self._count * self._length))
        return [slice(start, min(start + step, width)) for start in range(0, width, step)]

    def spectrum(self, rows: Tensor) -> Tensor:
        """(c, B, L // 2 + 1) complex, from (B * n, c)."""
        rows_cBn = _channels_first(rows).view(rows.shape[1], -1, self._size)
        return torch.fft.rfft(rows_cBn, n=self._length)

    def gradient_spectrum(self, rows: Tensor) -> Tensor:
        """(c, B, L // 2 + 1) complex spectrum of the output's gradient."""
        return self.spectrum(rows)

    def filter_spectrum(self, taps: Tensor) -> Tensor:
        """(c, 1, L // 2 + 1) complex, from (n, c)."""
        return self.spectrum(taps)

    def convolve(self, u: Tensor, f: Tensor) -> Tensor:
        """(B * n, c) output, from spectra."""
        return self._back(u * f, self._size)

    def rows_gradient(self, g: Tensor, f: Tensor) -> Tensor:
        """(B * n, c) gradient of the rows, from spectra of the output's gradient and of the filter."""
        return self._back(g * f.conj(), -self._size)

    def taps_gradient(self, g: Tensor, u: Tensor) -> Tensor:
        """(n, c) gradient of the filter, from spectra of the output's gradient and of the rows."""
        return self._back((g * u.conj()).sum(1, keepdim=True), -self._size)

    def _back(self, spectrum: Tensor, shift: int) -> Tensor:
        """Rows from a spectrum; what stands ``shift`` entries further (around the end) belongs to the same row."""
        long_cBL: Tensor = torch.fft.irfft(spectrum, n=self._length)
        rows_cBn = long_cBL[..., : self._size]
        if self._length > self._size:
            start = shift % self._length
            rows_cBn = rows_cBn + long_cBL[..., start : start + self._size]
        return rows_cBn.flatten(1).t()


def _channels_first(rows: Tensor) -> Tensor:
    """(c, R), from (R, c); all at once, every number read by a CPU would miss its cache."""
    if rows.device.type != "cpu":
        return rows.t().contiguous()
    out = rows.new_empty(rows.shape[1], rows.shape[0])
    for source, target in zip(rows.split(_TILE), out.split(_TILE, dim=1)):
        target.copy_(source.t())
    return out


def _is_smooth(n: int) -> bool:
    for prime in (2, 3, 5, 7, 11, 13):
        while n % prime == 0:
            n //= prime
    return n == 1


def _padded(least: int) -> int:
    """A length of at least ``least`` that is fast: m * 2^k with 8 <= m <= 16, m = 8 if long."""
    bits = (least - 1).bit_length()
    step = 1 << (bits if least > _LONG else max(bits - 4, 0))
    return -(-least // step) * step
