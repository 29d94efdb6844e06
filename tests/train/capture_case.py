"""A small training on the second device, captured or not: what the tests of capturing share."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from graphbench.config import load_config
from graphbench.data.loading.loader import GraphLoaders
from graphbench.data.loading.process import LoaderProcess
from graphbench.data.splits import Splits
from graphbench.factory.data import declared_info
from graphbench.factory.model import build_model
from graphbench.factory.task import build_task
from graphbench.factory.training import build_optimizer, build_settings
from graphbench.factory.transforms import build_transforms
from graphbench.structures import BatchPlan
from graphbench.tasks.task import Task
from graphbench.train.captured_evaluation import CapturedEvaluation
from graphbench.train.captured_step import CapturedSteps
from graphbench.train.evaluation import SplitPredictions, collect, launch
from graphbench.train.fabric import Fabric
from graphbench.train.forward import BatchAdapter, Predictor
from graphbench.train.precision import Precision
from graphbench.train.step_graph import CudaStepGraphs, StepGraphs
from graphbench.train.step_runner import StepRunner
from graphbench.train.tally import StepOutput
from graphbench.train.training_step import TrainingStep
from tests.paths import ROOT
from tests.second_device import DEVICE, GPU
from tests.synthetic_batch import store_like
from tests.test_second_device import _fabric, _without_dropout
from tests.train.step_tape import Tapes

SIZES = [7, 1, 12, 5, 9, 3, 11, 6, 8, 2, 10, 4, 5, 7, 6, 9]

SMALL = "gt.layers 1 gnn.layers_mp 1 train.batch_size 4 accelerator cpu"
NO_DROPOUT = "gt.dropout 0 gt.attn_dropout 0 gnn.dropout 0"


def step_graphs() -> StepGraphs:
    """CUDA graphs where there is a GPU, tapes elsewhere."""
    return CudaStepGraphs(DEVICE) if GPU else Tapes()


@dataclass
class Training:
    """A model, its data and its steps on the second device."""

    model: nn.Module
    task: Task
    loaders: GraphLoaders
    step: TrainingStep
    captured: CapturedSteps
    graphs: StepGraphs
    runner: StepRunner
    predict: Predictor
    evaluation: CapturedEvaluation
    fabric: Fabric
    _replayed: int = 0

    def plans(self, epochs: int) -> list[BatchPlan]:
        """Of the first epochs."""
        return list(itertools.chain(*(self.loaders.train_plans(epoch) for epoch in range(epochs))))

    def replayed(self, plan: BatchPlan) -> StepOutput:
        """The captured step; every four of them an epoch."""
        if self._replayed % self.loaders.num_train_batches == 0:
            self.captured.begin_epoch()
        self._replayed += 1
        return self.captured(plan)

    def eager(self, plan: BatchPlan) -> Tensor:
        """The step without padding and without a graph; its loss."""
        output = self.step.backward(self.loaders.gather(plan))
        self.step.update()
        self.step.forget_gradients()
        return output.loss.detach()

    def evaluate(self, captured: bool) -> dict[str, SplitPredictions]:
        """Predictions of validation and test."""
        self.model.eval()
        evaluation = self.evaluation if captured else None
        launched = launch(self.predict, self.task, self.loaders.passes, captured=evaluation)
        return collect(launched, self.fabric)

    def parameters(self) -> list[Tensor]:
        """Copies on the CPU."""
        return [each.detach().cpu().clone() for each in (*self.model.parameters(), *self.model.buffers())]


def training(
    name: str,
    tmp_path: Path,
    *overrides: str,
    dropout: bool = False,
    graphs: StepGraphs | None = None,
    dtype: torch.dtype = torch.float64,
    one_graph: bool = False,
    splits: Splits | None = None,
    accumulates: bool = False,
    precision: Precision | None = None,
) -> Training:
    """The training of a configuration on sixteen small graphs, four per batch; inside ``second_device``.

    Args:
        name: of the configuration.
        tmp_path: for what transforms cache.
        *overrides: of the configuration.
        dropout: as configured; else none.
        graphs: record; None: whatever there is.
        dtype: of the parameters.
        one_graph: train on the nodes of one graph instead.
        splits: of the graphs or nodes; None: all are trained on.
        accumulates: add up gradients of several batches.
        precision: of Fabric; None: that of the parameters.
    """
    sizes = [sum(SIZES)] if one_graph else SIZES
    changes = [*SMALL.split(), *([] if dropout else NO_DROPOUT.split()), *overrides]
    config = load_config(ROOT / "configs" / f"{name}.yaml", changes)
    if config.component_args("gt", config.tree.model.type).get("nodes", 0):  # weights per node
        changes += [f"gt.{config.tree.model.type}.nodes", str(sum(sizes))]
        config = load_config(ROOT / "configs" / f"{name}.yaml", changes)
    info = dataclasses.replace(declared_info(config), max_nodes=max(sizes))
    torch.manual_seed(0)
    model, task = build_model(config, info).to(dtype).train(), build_task(config, info)
    if not dropout:
        _without_dropout(model)
    store = store_like(info, build_transforms(config), tmp_path, sizes)
    examples = torch.arange(sum(sizes) if one_graph else len(sizes))
    loaders = GraphLoaders(
        store,
        splits or Splits(train=examples, val=examples[:0], test=examples[:0]),
        LoaderProcess(0, DEVICE),
        batch_size=config.tree.train.batch_size,
        transductive=one_graph,
        resident="always",
    )
    model = copy.deepcopy(model).to(DEVICE)
    optimizer = build_optimizer(config, model)
    fabric = _fabric(config, precision)
    adapter = BatchAdapter(model, torch.float64 if dtype == torch.float64 else None)
    step = TrainingStep(fabric, fabric.setup(adapter), model, optimizer, task, build_settings(config, info))
    graphs = step_graphs() if graphs is None else graphs
    captured = CapturedSteps(graphs, loaders, step, model, optimizer, DEVICE, accumulates)
    predict = Predictor(fabric, adapter)
    evaluation = CapturedEvaluation(graphs, loaders, predict, task, model, DEVICE)
    runner = StepRunner(step, loaders, captured)
    return Training(model, task, loaders, step, captured, graphs, runner, predict, evaluation, fabric)
