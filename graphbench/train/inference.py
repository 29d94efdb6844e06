"""Applying a trained model: scores and predictions, attention weights."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from graphbench.contract import HasAttentionWeights
from graphbench.errors import UserError
from graphbench.runs import atomic
from graphbench.runs.environment import peak_memory
from graphbench.runs.history import SPLITS
from graphbench.runs.record import Outcome, Score
from graphbench.structures import DataLoaders, GraphBatch, as_dense
from graphbench.tasks.task import Task
from graphbench.train.evaluation import SplitPredictions, evaluate
from graphbench.train.forward import BatchAdapter, OpaqueBatch, Predictor
from graphbench.train.forward_hooks import ForwardObserver, ask_attention_weights

logger = logging.getLogger("graphbench.inference")

ATTENTION_GRAPHS = 128
"""Graphs of the test split whose attention weights are written, as in GraphGPS."""

OGB_SPLITS = {"val": "test-dev", "test": "test-challenge"}
"""Parts of PCQM4Mv2-inference that OGB's leaderboard takes; its part ``train`` is the labelled validation set."""


@dataclass(frozen=True)
class Inference:
    """A model and the data it is applied to; every method is one mode, and gives the outcome for the record.

    Attributes:
        fabric: launched.
        model: with its trained parameters.
        task: loss and metrics.
        loaders: batches of all splits.
        folder: run directory, where results are written.
        best_epoch: of the run that the parameters come from.
    """

    fabric: Fabric
    model: nn.Module
    task: Task
    loaders: DataLoaders
    folder: Path
    best_epoch: int

    def scores(self) -> Outcome:
        """Loss and metrics of every split; ``predictions.npz`` holds ``<split>_pred`` and ``<split>_true``.

        Rows are in the order of the split's examples (with several processes: one process after the other).
        """
        start = time.perf_counter()
        predictions = self._evaluate()
        arrays = {}
        for split, of_split in predictions.items():
            arrays[f"{split}_pred"] = _array(of_split.buffer.preds)
            arrays[f"{split}_true"] = _array(of_split.buffer.trues)
        self._write("predictions.npz", arrays)
        return self._outcome("inference-only", predictions, start)

    def ogb_submission(self) -> Outcome:
        """Two files for the leaderboard of PCQM4Mv2, as OGB's evaluator writes them: ``y_pred``, (graphs,) float32."""
        start = time.perf_counter()
        predictions = self._evaluate()
        for split, name in OGB_SPLITS.items():
            y_pred = _array(predictions[split].buffer.preds).astype(np.float32).reshape(-1)
            self._write(f"y_pred_pcqm4m-v2_{name}.npz", {"y_pred": y_pred})
        return self._outcome("PCQM4Mv2-inference", predictions, start)

    def attention(self) -> Outcome:
        """``attention.npz`` with the attention weights of the first :data:`ATTENTION_GRAPHS` test graphs.

        ``<layer>/<graph>`` is (heads, n, n), rows being queries, per module that
        :class:`~graphbench.contract.HasAttentionWeights`; ``edge_index/<graph>`` (2, edges) and, where there are
        features, ``x/<graph>`` say which graph it is.

        Raises:
            UserError: the model has no such module.
        """
        start = time.perf_counter()
        observer = ForwardObserver(self.model, HasAttentionWeights, ask_attention_weights)
        if not observer.modules:
            raise UserError(
                "train.mode log-attn-weights: no layer of this model gives its attention weights; "
                "Transformer, SFi, DFi, Gradformer, FFGT and GRPE do."
            )
        arrays: dict[str, np.ndarray] = {}
        done = 0
        test_pass = next(eval_pass for eval_pass in self.loaders.passes if "test" in eval_pass.rows)
        for batch in test_pass.batches():
            if not isinstance(batch, GraphBatch):
                raise UserError("train.mode log-attn-weights reads whole graphs: set val.sampler to full_batch.")
            with torch.no_grad(), self.fabric.strategy.precision.forward_context(), observer() as answers:
                self._adapter(OpaqueBatch(batch))
            kept = min(batch.num_graphs, ATTENTION_GRAPHS - done)
            _add_graphs(arrays, batch, kept, done)
            for layer, weights in answers.items():
                for graph in range(kept):
                    arrays[f"{layer.removeprefix('model.')}/{done + graph}"] = weights[graph].float().cpu().numpy()
            done += kept
            if done == ATTENTION_GRAPHS:
                break
        self._write("attention.npz", arrays)
        return self._outcome("log-attn-weights", {}, start)

    @cached_property
    def _adapter(self) -> BatchAdapter:
        precision = self.fabric.strategy.precision
        adapter = BatchAdapter(self.model, precision.precision)
        moved: BatchAdapter = self.fabric.to_device(precision.convert_module(adapter))  # type: ignore[assignment]
        return moved.eval()

    def _evaluate(self) -> dict[str, SplitPredictions]:
        predict = Predictor(self.fabric, self._adapter)
        return evaluate(predict, self.task, self.loaders.passes, self.fabric, skip=())

    def _outcome(self, reason: str, predictions: Mapping[str, SplitPredictions], start: float) -> Outcome:
        scores = [
            Score(split, name, value, name != "loss" and self.task.maximize(name), predictions[split].buffer.rows)
            for split in SPLITS
            if split in predictions
            for name, value in predictions[split].buffer.compute(self.task).items()
        ]
        seconds = time.perf_counter() - start
        return Outcome(
            reason=reason,
            best_epoch=self.best_epoch,
            epochs=0,
            scores=tuple(scores),
            params=sum(parameter.numel() for parameter in self.model.parameters() if parameter.requires_grad),
            time_per_epoch=seconds,
            total_time=seconds,
            peak_memory=peak_memory(self.fabric.device),
        )

    def _write(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        if self.fabric.is_global_zero:
            with atomic.replacing(self.folder / name) as file:
                np.savez_compressed(file, **dict[str, Any](arrays))
            logger.info("written: %s", self.folder / name)


def _array(rows: Sequence[Tensor]) -> np.ndarray:
    return torch.cat(list(rows)).cpu().numpy()


def _add_graphs(arrays: dict[str, np.ndarray], batch: GraphBatch, graphs: int, first: int) -> None:
    """The first graphs of a batch, numbered from ``first``."""
    ptr = batch.ragged.ptr.tolist()
    edge_graph = batch.ragged.graph_id[batch.edge_index[0]]
    for graph in range(graphs):
        edges = batch.edge_index[:, edge_graph == graph] - ptr[graph]
        arrays[f"edge_index/{first + graph}"] = edges.cpu().numpy()
        if batch.x is not None:
            arrays[f"x/{first + graph}"] = as_dense(batch.x[ptr[graph] : ptr[graph + 1]]).cpu().numpy()
