"""Passage of a batch through Lightning's wrapper and DDP into the model.

They walk through the forward arguments to cast every tensor they find, and refuse frozen dataclasses; a
:class:`~graphbench.structures.GraphBatch` is one, on purpose. So the batch travels inside an object that the walk has
no reason to open, and is cast here where the weights have another type.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from graphbench.blockwise.model import BlockwiseModel
from graphbench.contract import (
    HasAuxiliaryLoss,
    HasStatistics,
    PredictionHead,
    broken,
    head_prefixes,
    take_auxiliary_loss,
)
from graphbench.errors import UserError
from graphbench.structures import EdgeSet, GraphBatch
from graphbench.structures.node_blocks import NodeBlocks
from graphbench.train.fabric import Fabric
from graphbench.train.forward_hooks import ForwardObserver, ask_statistics, averaged


class OpaqueBatch:
    """Holds a batch; Fabric and DDP do not look inside."""

    __slots__ = ("batch",)

    def __init__(self, batch: GraphBatch | NodeBlocks) -> None:
        self.batch = batch


class BatchAdapter(nn.Module):
    """``model`` called with an :class:`OpaqueBatch`.

    Args:
        model: called with the batch.
        dtype: type of the weights, to which batches are cast; None: that of the batches.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.model = model
        self.dtype = dtype
        self._with_auxiliary_loss = [module for module in model.modules() if isinstance(module, HasAuxiliaryLoss)]

    def forward(self, opaque: OpaqueBatch) -> tuple[Tensor, Tensor | None]:
        """The model's prediction for the batch inside, and the auxiliary loss of its layers, None without any.

        Both are returned, because DDP looks for parameters that have no gradient in what the forward pass returns.
        """
        prediction = self._predict(opaque.batch)
        return prediction, take_auxiliary_loss(self._with_auxiliary_loss)

    def _predict(self, batch: GraphBatch | NodeBlocks) -> Tensor:
        if not isinstance(batch, GraphBatch):
            return self._forward_blockwise(batch)
        if self.dtype is not None:
            # Kept with the batch: a graph that is one batch for the whole run is cast once, whatever its state.
            batch = batch.derived(_cast, self.dtype).with_state(batch.state)
        prediction: Tensor = self.model(batch)
        if not isinstance(prediction, Tensor):
            heads = (module for module in self.model.modules() if isinstance(module, PredictionHead))
            made_by: tuple[nn.Module, ...] = (*heads, self.model)
            own = [part for part in made_by if not type(part).__module__.startswith("graphbench.")]
            raise broken(type((own or made_by)[0]).forward, "a tensor of predictions", prediction)
        return prediction

    def _forward_blockwise(self, graph: NodeBlocks) -> Tensor:
        if not isinstance(self.model, BlockwiseModel):
            raise UserError(
                f"val.sampler: {type(self.model).__name__} cannot be evaluated block by block. Use full_batch."
            )
        try:
            prediction: Tensor = self.model.forward_blockwise(graph if self.dtype is None else graph.cast(self.dtype))
        except ValueError as error:
            raise UserError(f"val.sampler: {error}") from error
        return prediction


def _cast(batch: GraphBatch, dtype: torch.dtype) -> GraphBatch:
    """The batch with floating-point features of another type; targets stay."""

    def cast(tensor: Tensor | None) -> Tensor | None:
        return tensor.to(dtype) if tensor is not None and tensor.is_floating_point() else tensor

    x = batch.x
    return batch.replace(
        x=x.to(dtype) if x is not None and x.is_floating_point() else x,
        edge_attr=cast(batch.edge_attr),
        pe={name: cast(pe) for name, pe in batch.pe.items()},
        edge_pe={name: cast(pe) for name, pe in batch.edge_pe.items()},
        pair_pe={name: cast(pe) for name, pe in batch.pair_pe.items()},
        edge_sets={name: EdgeSet(edges.index, edges.ptr, cast(edges.attr)) for name, edges in batch.edge_sets.items()},
    )


class Predictor:
    """The prediction of a batch without gradients, outside the data-parallel wrapper.

    DDP broadcasts buffers in every forward pass, also in evaluation, and would wait for ever where processes
    evaluate different numbers of batches.

    On the way it asks every module that :class:`~graphbench.contract.HasStatistics` for its numbers about each graph: a
    head how well it ranks, an attention how sparse it is.

    Args:
        fabric: fabric whose precision is applied.
        adapter: the module set up with that fabric, before wrapping.
    """

    def __init__(self, fabric: Fabric, adapter: BatchAdapter) -> None:
        self._precision = fabric.precision
        self._adapter = adapter
        self._with_heads = ForwardObserver(adapter, HasStatistics, ask_statistics)
        heads = head_prefixes(adapter)
        self._without_heads = ForwardObserver(
            adapter, HasStatistics, ask_statistics, among=lambda name: not f"{name}.".startswith(heads)
        )

    def __call__(self, batch: GraphBatch | NodeBlocks, heads: bool = True) -> tuple[Tensor, dict[str, Tensor]]:
        """The prediction, in the default number format, and (G,) statistics by name; a mean where modules share a name.

        Args:
            batch: on the device, or a graph in blocks, whose predictions lie on the host. No module sees all of such a
                graph, so that it has no statistics.
            heads: False leaves out what the head says: its statistics judge all predictions of a graph together.
        """
        observer = self._with_heads if heads else self._without_heads
        observed: AbstractContextManager[dict[str, dict[str, Tensor]]] = (
            observer() if isinstance(batch, GraphBatch) else nullcontext({})
        )
        # Not inference_mode: what it computes into batch.derived could not take part in training afterwards.
        with torch.no_grad(), self._precision.forward_context(), observed as answers:
            prediction, _ = self._adapter(OpaqueBatch(batch))
        return self._precision.convert_output(prediction), averaged(answers.values())
