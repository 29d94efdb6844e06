"""Linear maps with fewer kernels on a device: several of the same rows as one product, ReLU within the product."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from graphbench.ops.linear import linear, linear_and_rows, linear_parts


class Linear(nn.Linear):
    """``nn.Linear`` whose backward pass of few rows is one kernel on a GPU; parameters and results are the same.

    Shape:
        (R, in_features) -> (R, out_features); as ``nn.Linear`` for other dimensions.
    """

    def forward(self, input: Tensor) -> Tensor:
        """(R, out_features)."""
        return linear(input, self.weight, self.bias) if input.dim() == 2 else super().forward(input)


def joint_linear(h: Tensor, maps: Sequence[nn.Linear]) -> tuple[Sequence[Tensor], Tensor | None, Tensor]:
    """``[lin(h) for lin in maps]``, on a device as one product with all weights; and ``h`` for whoever reads it next.

    There every product is a kernel forward and up to three backward, and the gradients of ``h`` are added one by one:
    what is computed costs less than what is launched. For ``h`` see :func:`graphbench.ops.linear.linear_and_rows`.
    Between them stands what the results are views of there, (N, maps, channels), for operators that write its gradient
    in one piece; None where they are apart.

    Args:
        h: (N, d).
        maps: maps with bias, from d channels, on a device to as many channels each.
    """
    biases: list[Tensor] = [lin.bias for lin in maps if lin.bias is not None]
    if h.device.type == "cpu" or len(biases) < len(maps) or len({lin.out_features for lin in maps}) > 1:
        return [lin(h) for lin in maps], None, h
    packed, h = linear_parts(h, [lin.weight for lin in maps], biases)
    return packed.unbind(1), packed, h


def activated_linear(h: Tensor, lin: nn.Linear, act: nn.Module) -> tuple[Tensor, Tensor]:
    """``act(lin(h))``, and ``h`` for whoever reads it next, see :func:`graphbench.ops.linear.linear_and_rows`.

    Args:
        h: (N, d).
        lin: map from d channels.
        act: activation; ReLU is part of the operator.
    """
    if isinstance(act, nn.ReLU):
        return linear_and_rows(h, lin.weight, lin.bias, act="relu")
    out, h = linear_and_rows(h, lin.weight, lin.bias)
    return act(out), h
