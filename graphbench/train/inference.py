"""Applying a trained model: scores and predictions, attention weights."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from graphbench import atomic
from graphbench.errors import UserError
from graphbench.runs.environment import peak_memory
from graphbench.runs.record import Outcome, Score
from graphbench.structures import DataLoaders, EvaluationPass, GraphBatch, as_dense
from graphbench.tasks.task import Task
from graphbench.train.distributed import gather_objects
from graphbench.train.evaluation import SplitPredictions, evaluate
from graphbench.train.fabric import Fabric
from graphbench.train.forward import BatchAdapter, OpaqueBatch, Predictor
from graphbench.train.forward_hooks import attention_weights
from graphbench.train.parameter_groups import count_parameters
from graphbench.vocabulary import SPLITS

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
        model: model with its trained parameters.
        task: loss and metrics.
        loaders: batches of all splits.
        folder: run directory, where results are written.
        best_epoch: best epoch of the run that the parameters come from.
        rows: by split, columns of numbers (R,) that say what the predictions are of, by name.
    """

    fabric: Fabric
    model: nn.Module
    task: Task
    loaders: DataLoaders
    folder: Path
    best_epoch: int
    rows: Mapping[str, Mapping[str, Tensor]]

    def scores(self) -> Outcome:
        """Loss and metrics of every split; ``predictions.npz`` holds ``<split>_pred`` and ``<split>_true``.

        ``<split>_graph``, ``<split>_node`` or ``<split>_pair`` are :attr:`rows`. All are in the order of the split's
        examples, with several processes as with one.
        """
        start = time.perf_counter()
        predictions = self._evaluate()
        arrays = {}
        for split, of_split in predictions.items():
            arrays[f"{split}_pred"] = _array(of_split.buffer.preds)
            arrays[f"{split}_true"] = _array(of_split.buffer.trues)
            arrays |= {f"{split}_{name}": numbers.numpy() for name, numbers in self.rows[split].items()}
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
        test_pass = next(eval_pass for eval_pass in self.loaders.passes if "test" in eval_pass.rows)
        graphs = self._attention_of(test_pass)
        if test_pass.rows["test"] is None:  # else every process has seen the same graphs
            graphs = [graph for of_process in gather_objects(graphs, self.fabric) for graph in of_process]
        arrays = {
            f"{name}/{number}": array
            for number, graph in enumerate(graphs[:ATTENTION_GRAPHS])
            for name, array in graph.items()
        }
        self._write("attention.npz", arrays)
        return self._outcome("log-attn-weights", {}, start)

    def _attention_of(self, test_pass: EvaluationPass) -> list[dict[str, np.ndarray]]:
        """Weights per layer, edges and features of the first graphs of this process."""
        graphs: list[dict[str, np.ndarray]] = []
        for batch, rows in test_pass.batches():
            if not isinstance(batch, GraphBatch) or rows is not None:  # blocks of a graph, or what was sampled of it
                raise UserError("train.mode log-attn-weights reads whole graphs: set val.sampler to full_batch.")
            with self.fabric.precision.forward_context():
                answers = attention_weights(self.model, partial(self._adapter, OpaqueBatch(batch)))
            for graph in range(min(batch.num_graphs, ATTENTION_GRAPHS - len(graphs))):
                arrays = {layer: of_layer[graph].float().cpu().numpy() for layer, of_layer in answers.items()}
                graphs.append({**arrays, **_graph(batch, graph)})
            if len(graphs) == ATTENTION_GRAPHS:
                break
        return graphs

    @cached_property
    def _adapter(self) -> BatchAdapter:
        return self.fabric.place(BatchAdapter(self.model, self.fabric.precision.weights)).eval()

    def _evaluate(self) -> dict[str, SplitPredictions]:
        predict = Predictor(self.fabric, self._adapter)
        return evaluate(predict, self.task, self.loaders.passes, self.fabric, skip=())

    def _outcome(self, reason: str, predictions: Mapping[str, SplitPredictions], start: float) -> Outcome:
        scores: list[Score] = []
        undefined = {}
        for split in (split for split in SPLITS if split in predictions):
            buffer = predictions[split].buffer
            for name, value in buffer.compute(self.task).items():
                scores.append(Score(split, name, value, self.task.maximize(name), buffer.rows))
            if self.task.undefined:
                undefined[split] = dict(self.task.undefined)
        seconds = time.perf_counter() - start
        return Outcome(
            reason=reason,
            best_epoch=self.best_epoch,
            epochs=0,
            scores=tuple(scores),
            params=count_parameters(self.model),
            time_per_epoch=seconds,
            total_time=seconds,
            peak_memory=peak_memory(self.fabric.device),
            undefined=undefined,
        )

    def _write(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        if self.fabric.is_global_zero:
            with atomic.replacing(self.folder / name) as file:
                np.savez_compressed(file, **dict[str, Any](arrays))
            logger.info("written: %s", self.folder / name)


def _array(rows: Sequence[Tensor]) -> np.ndarray:
    return torch.cat(list(rows)).cpu().numpy()


def _graph(batch: GraphBatch, graph: int) -> dict[str, np.ndarray]:
    """Edges and features of a graph of a batch."""
    start, end = batch.ragged.ptr[graph : graph + 2].tolist()
    edges = batch.edge_index[:, batch.ragged.graph_id[batch.edge_index[0]] == graph] - start
    arrays = {"edge_index": edges.cpu().numpy()}
    if batch.x is not None:
        arrays["x"] = as_dense(batch.x[start:end]).cpu().numpy()
    return arrays
