"""Structural encodings that are the diagonal of a kernel: random walks, heat, electrostatics.

Dwivedi et al., Graph Neural Networks with Learnable Structural and Positional Representations,
https://arxiv.org/abs/2110.07875, and Kreuzer et al., https://arxiv.org/abs/2106.03893, as used by GraphGPS,
https://arxiv.org/abs/2205.12454. The numbers are defined by their transforms, see ``transforms``.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from graphbench.encoders.contract import ColumnEncoder
from graphbench.encoders.mlp import ReLUStack, raw_norm
from graphbench.errors import ArgumentError, check_at_least
from graphbench.layers.norm import BatchNorm
from graphbench.registry import register
from graphbench.structures import GraphBatch

POTENTIAL_COLUMNS = 10
"""Numbers per node of the transform ``ElectrostaticSE``."""


class KernelSE(ColumnEncoder):
    """pe_i = net(s_i), s_i one number per time, computed by a transform for node i.

    Args:
        dim_pe: width of the encoding.
        times: times of the kernel, as given to the transform.
        model: ``mlp`` (linear maps with a ReLU after each), ``linear``, or ``normed_linear`` (one without bias, then
            BatchNorm and ReLU: Graph MLP-Mixer); case ignored.
        layers: linear maps of the MLP.
        raw_norm_type: ``none`` or ``BatchNorm`` over the numbers of each time.

    Shape:
        (N, len(times)) -> (N, dim_pe)
    """

    capturable: ClassVar[bool] = True
    output: ClassVar[str]

    def __init__(
        self, dim_pe: int, times: list[int], *, model: str = "linear", layers: int = 3, raw_norm_type: str = "none"
    ) -> None:
        super().__init__()
        name = self.registered_name
        if model.lower() not in ("mlp", "linear", "normed_linear"):
            raise ArgumentError("model", f"{name}: model must be mlp, linear or normed_linear, received '{model}'")
        if not times:
            raise ArgumentError("times", f"{name}: times must name at least one number of steps, received none")
        check_at_least(1, dim_pe=dim_pe, layers=layers)
        self.num_times = len(times)
        self.raw_norm = raw_norm(name, raw_norm_type, self.num_times)
        self.mlp = ReLUStack(self.num_times, dim_pe, layers) if model.lower() == "mlp" else None
        self.lin: nn.Linear | None = None
        self.norm: BatchNorm | None = None
        if self.mlp is None:
            self.norm = BatchNorm(dim_pe) if model.lower() == "normed_linear" else None
            self.lin = nn.Linear(self.num_times, dim_pe, bias=self.norm is None)

    def forward(self, batch: GraphBatch) -> Tensor:
        """(N, dim_pe) encodings of the nodes."""
        numbers = self.encoding(batch, self.output, self.num_times)
        numbers = numbers.to(next(self.parameters()).dtype)
        if self.raw_norm is not None:
            numbers = self.raw_norm(numbers, batch)
        network = self.mlp if self.lin is None else self.lin
        assert network is not None
        pe: Tensor = network(numbers)
        return pe if self.norm is None else self.norm(pe, batch).relu()


@register("RWSE")
class RWSE(KernelSE):
    """Random-walk structural encoding: probabilities that a walk from i is back at i after t steps.

    Arguments as :class:`KernelSE`.
    """

    transform: ClassVar[str | None] = "RandomWalkSE"
    output: ClassVar[str] = "landing"


@register("HKdiagSE")
class HKdiagSE(KernelSE):
    """Heat-kernel structural encoding: heat left at i after time t, the constant mode taken off.

    Arguments as :class:`KernelSE`.
    """

    transform: ClassVar[str | None] = "HeatKernelSE"
    output: ClassVar[str] = "heat"


@register("ElstaticSE")
class ElstaticSE(KernelSE):
    """Electrostatic structural encoding: ten statistics of the potential between i and all nodes.

    Arguments as :class:`KernelSE`.

    Only the length of ``times`` is read, and it must be 10 (GraphGPS's default, ``range(10)``).
    """

    transform: ClassVar[str | None] = "ElectrostaticSE"
    output: ClassVar[str] = "potential"

    def __init__(
        self, dim_pe: int, times: list[int], *, model: str = "linear", layers: int = 3, raw_norm_type: str = "none"
    ) -> None:
        if len(times) != POTENTIAL_COLUMNS:
            raise ArgumentError(
                "times",
                f"ElstaticSE has {POTENTIAL_COLUMNS} numbers per node, so times must name as many "
                f"(range({POTENTIAL_COLUMNS})), received {len(times)}",
            )
        super().__init__(dim_pe, times, model=model, layers=layers, raw_norm_type=raw_norm_type)
