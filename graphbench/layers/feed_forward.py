"""The two-layer perceptron at the end of a transformer block."""

from __future__ import annotations

from torch import Tensor, nn

from graphbench.layers.activation import activation
from graphbench.layers.dropout import Dropout
from graphbench.layers.linear import Linear, activated_linear


class FeedForward(nn.Module):
    """``drop_out(W_2 drop(act(W_1 h)))``, of width ``expansion * dim`` or ``width`` inside.

    Args:
        dim: channels of input and output.
        act: name of the activation.
        dropout: probability of dropping an entry inside.
        dropout_out: probability of dropping an entry of the result; None: as ``dropout``.
        expansion: inner width as a multiple of ``dim``.
        width: inner width; None: by ``expansion``.

    Shape:
        h (N, dim) -> (N, dim).
    """

    def __init__(
        self,
        dim: int,
        *,
        act: str = "relu",
        dropout: float = 0.0,
        dropout_out: float | None = None,
        expansion: int = 2,
        width: int | None = None,
    ) -> None:
        super().__init__()
        inner = expansion * dim if width is None else width
        self.lin_in = Linear(dim, inner)
        self.act = activation(act)
        self.dropout = Dropout(dropout)
        self.lin_out = Linear(inner, dim)
        self.dropout_out = Dropout(dropout if dropout_out is None else dropout_out)

    def forward(self, h: Tensor) -> Tensor:
        """(N, dim), without residual and norm."""
        return self.dropout_out(self.mapped(h)[0])

    def mapped(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """(N, dim) before the last dropout, which may be part of the norm that follows (:func:`.normed`).

        With ``h`` for the residual, see :func:`.activated_linear`.
        """
        inner, h = activated_linear(h, self.lin_in, self.act)
        return self.lin_out(self.dropout(inner)), h
