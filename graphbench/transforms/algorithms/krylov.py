"""Functions of sparse Laplacians L = D - A applied to blocks of vectors: heat kernels, and the pseudo-inverse.

Heat: the Chebyshev series of exp(-t x) on [0, b], b at least the largest eigenvalue, with a(x) = 2 x / b - 1,
z = t b / 2, scaled Bessel functions e^-z I_k(z) and Chebyshev polynomials T_k::

    exp(-t x) = e^-z I_0(z) + 2 sum over k of (-1)^k e^-z I_k(z) T_k(a(x))

|T_k| <= 1, so that leaving out k > m costs at most twice the sum of the left-out coefficients, in the norm of matrices.
Pseudo-inverse: conjugate gradients with the degrees as preconditioner, in the complement of the null space (vectors
that are constant on components).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.special import ive

from graphbench.errors import RunFailed

HEAT_ERROR = 1e-10
"""Error of a heat kernel, in the norm of matrices and hence each entry: what the series leaves out, before rounding."""

RESIDUAL = 1e-10
"""Error of a solution: length of ``L x - b`` in lengths of b. An error of x is at most this over the smallest non-zero
eigenvalue; of an effective resistance, a quadratic form, at most its square over that eigenvalue."""


class SparseLaplacian:
    """A Laplacian D - A.

    Args:
        matrix: (n, n), symmetric.
    """

    def __init__(self, matrix: sp.csr_array) -> None:
        self.matrix = matrix
        count, self.component = connected_components(matrix, directed=False)
        self.component_size = np.bincount(self.component, minlength=count)
        nodes = np.arange(matrix.shape[0])
        share = (1 / self.component_size)[self.component]
        self._averages = sp.csr_array((share, (self.component, nodes)), shape=(count, len(nodes)))
        self._bound = float(abs(matrix).sum(1).max()) or 1.0  # Gershgorin
        # D of 0 belongs to nodes without edges, where every right-hand side is 0 once it is centred.
        self._inverse_degree = 1 / np.maximum(matrix.diagonal(), 1)[:, None]

    def centred(self, block: np.ndarray) -> np.ndarray:
        """(n, w) without what is constant on components."""
        return block - (self._averages @ block)[self.component]

    def coefficients(self, times: Sequence[float]) -> np.ndarray:
        """(m + 1, times), of T_0, ..., T_m; m the least that all times have the error :data:`HEAT_ERROR` with."""
        columns = []
        for time in times:
            z = time * self._bound / 2
            order = np.arange(int(8 * (2 * z) ** 0.5 + 64))
            value = ive(order, z) * np.where(order % 2, -2.0, 2.0)
            value[0] /= 2
            left_out = abs(value[::-1]).cumsum()[::-1]
            columns.append(value[: max(1, int((left_out > HEAT_ERROR).sum()))])
        table = np.zeros((max(map(len, columns)), len(columns)))
        for number, column in enumerate(columns):
            table[: len(column), number] = column
        return table

    def chebyshev(self, block: np.ndarray, count: int) -> Iterator[np.ndarray]:
        """T_0, ..., T_{count - 1} of the scaled Laplacian times a block (n, w)."""
        before, now = block, self._scaled(block)
        for number in range(count):
            yield before
            if number + 2 < count:
                before, now = now, 2 * self._scaled(now) - before
            else:
                before = now

    def heat_diagonal(self, unit: np.ndarray, first: int, coefficients: np.ndarray) -> np.ndarray:
        """(w, times), entries of the diagonal of exp(-t L) for columns of the identity.

        T_2k = 2 T_k^2 - 1 and T_2k+1 = 2 T_k T_k+1 - T_1: half of the products suffice.

        Args:
            unit: (n, w), columns first, ..., first + w - 1 of the identity.
            first: number of the first one.
            coefficients: result of :meth:`coefficients`.
        """
        width, count = unit.shape[1], len(coefficients)
        one = 2 * self.matrix.diagonal()[first : first + width] / self._bound - 1
        diagonal, before = np.zeros((width, coefficients.shape[1])), None
        for half, now in enumerate(self.chebyshev(unit, count // 2 + 1)):
            if before is not None and 2 * half - 1 < count:
                odd = 2 * np.einsum("ij,ij->j", before, now) - one
                diagonal += np.outer(odd, coefficients[2 * half - 1])
            if 2 * half < count:
                even = 2 * np.einsum("ij,ij->j", now, now) - 1
                diagonal += np.outer(even, coefficients[2 * half])
            before = now
        return diagonal

    def heat_estimate(self, signs: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """(n, times), sums over vectors of random signs whose mean is the diagonal of exp(-t L) without its limit.

        Hutchinson's estimator: of w vectors, entry i has the variance sum over j != i of K_ij^2 / w.

        Args:
            signs: (n, w), independent, each +1 or -1.
            coefficients: result of :meth:`coefficients`.
        """
        total = np.zeros((len(signs), coefficients.shape[1]))
        for number, term in enumerate(self.chebyshev(self.centred(signs), len(coefficients))):
            total += np.outer(np.einsum("ij,ij->i", signs, term), coefficients[number])
        return total

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """(n, w), pseudo-inverse times a block, with the residual :data:`RESIDUAL`.

        Raises:
            RunFailed: no convergence, which rounding may cause where the smallest eigenvalues are tiny.
        """
        residual = self.centred(rhs)
        solution = np.zeros_like(residual)
        wanted = RESIDUAL * np.linalg.norm(residual, axis=0)
        direction = self._inverse_degree * residual
        product = np.einsum("ij,ij->j", residual, direction)
        for _ in range(20 * len(rhs) + 100):
            active = np.linalg.norm(residual, axis=0) > wanted
            if not active.any():
                return self.centred(solution)
            image = self.matrix @ direction
            step = np.divide(product, np.einsum("ij,ij->j", direction, image), where=active, out=np.zeros_like(product))
            solution += step * direction
            residual -= step * image
            scaled = self._inverse_degree * residual
            following = np.einsum("ij,ij->j", residual, scaled)
            direction = scaled + np.divide(following, product, where=active, out=np.zeros_like(product)) * direction
            product = following
        raise RunFailed(f"conjugate gradients of a Laplacian of {len(rhs):,} nodes do not converge to {RESIDUAL:g}")

    def _scaled(self, block: np.ndarray) -> np.ndarray:
        return (2 / self._bound) * (self.matrix @ block) - block
