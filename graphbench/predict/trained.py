"""Models of finished runs, rebuilt from the run's folder alone: the data they were trained on is not needed."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from graphbench.config import Config
from graphbench.data.loading.hidden_pairs import count_answered
from graphbench.data.splits import PARTS
from graphbench.data.store import GraphStore
from graphbench.errors import UserError, neighbour, unknown
from graphbench.factory.data import read_data
from graphbench.factory.graphs import encode_store, gather, store_of
from graphbench.factory.model import build_model
from graphbench.factory.pretrained import run_configuration
from graphbench.predict.calibration import Calibration
from graphbench.predict.embeddings import Embeddings, hidden_states
from graphbench.predict.predictions import Predictions
from graphbench.run_inputs import read_finished
from graphbench.runs import json_text
from graphbench.runs.record import RunRecord
from graphbench.structures import DataInfo, GraphBatch
from graphbench.structures.data_info import FILE as INFO_FILE
from graphbench.train.forward_hooks import attention_weights
from graphbench.train.hub import PARAMETERS, local_folder
from graphbench.train.pretrained import read_best_of

logger = logging.getLogger("graphbench")


class Examples(NamedTuple):
    """Graphs as the models read them.

    Attributes:
        store: graphs with encodings.
        graphs: numbers of those that are meant.
        rows: numbers of the nodes, or labelled pairs, among them that count; None: all.
    """

    store: GraphStore
    graphs: Sequence[int]
    rows: Tensor | None


@dataclass(frozen=True, eq=False, repr=False)
class TrainedModel:
    """The models of one or several runs of a configuration, each at its best validation epoch.

    Attributes:
        config: configuration that they were built from.
        info: facts about the data they were trained on.
        models: one per run, in evaluation.
        folders: folders of the runs.
    """

    config: Config
    info: DataInfo
    models: Sequence[nn.Module]
    folders: Sequence[Path]

    def __repr__(self) -> str:
        """One line: printed models fill pages."""
        runs = f"{len(self.models)} run{'' if len(self.models) == 1 else 's'}"
        size = sum(each.numel() for each in self.models[0].parameters())
        return f"TrainedModel({self.folders[0]}: {runs}, {size:,} parameters, trained on {self.info.name})"

    @property
    def run(self) -> tuple[Path, nn.Module]:
        """Folder and model of the one run.

        Raises:
            UserError: there are several.
        """
        folder = self.folders[0]
        if len(self.models) > 1:
            raise UserError(f"{folder.parent}: has {len(self.models)} runs; name one of them, e.g. {folder}.")
        return folder, self.models[0]

    def examples(self, graphs: Any) -> Examples:
        """Graphs with their encodings, which the other methods take in place of the graphs, to make them once.

        Args:
            graphs: see :meth:`predict`.

        Raises:
            UserError: see :meth:`predict`; no such split, or an empty one.
        """
        if isinstance(graphs, Examples):
            return graphs
        if not isinstance(graphs, str):
            store = self._store(graphs)
            return Examples(store, range(store.num_graphs), None)
        if graphs not in PARTS:
            raise unknown("split", graphs, PARTS, "graphs")
        folder, _ = self.run  # several may have several splits
        finished = read_finished(folder)
        part = finished.splits.parts()[graphs]
        if not len(part):
            raise UserError(f"{folder}: its split has no examples '{graphs}'.")
        store = finished.encoded().store
        if finished.raw.card.transductive:
            return Examples(store, range(store.num_graphs), part)
        return Examples(store, part.tolist(), None)

    def predict(self, graphs: Any, *, device: torch.device | str = "cpu", batch_size: int | None = None) -> Predictions:
        """Predictions on new graphs; features mean what they meant in training, encodings are computed anew.

        Args:
            graphs: see :func:`~graphbench.data.graph_forms.graph_list`; targets are not needed (a model
                that reads those of training nodes, like UniMP, predicts from features alone). Of one run also
                ``train``, ``val`` or ``test``: the examples of its split, for which the data of the training is read;
                they have their numbers in the data set and their targets.
            device: device that the models compute on.
            batch_size: graphs at a time; default: that of the training.

        Raises:
            UserError: the graphs do not look like those of the training; see also :meth:`check_predicts`.
        """
        self.check_predicts()
        examples = self.examples(graphs)
        predictions = self.of_store(examples.store, examples.graphs, device=device, batch_size=batch_size)
        return predictions if examples.rows is None else predictions.of_rows(examples.rows)

    def embeddings(
        self,
        graphs: Any,
        module: str | None = None,
        *,
        device: torch.device | str = "cpu",
        batch_size: int | None = None,
    ) -> Embeddings:
        """Hidden states of the model of one run: (N, d) of the nodes, and (G, d) of the graphs where it pools them.

        Args:
            graphs: see :meth:`predict`.
            module: see :func:`~graphbench.predict.embeddings.hidden_states`; default: what the prediction head reads.
            device: see :meth:`predict`.
            batch_size: see :meth:`predict`.

        Raises:
            UserError: several runs, whose states have nothing in common; graphs unlike those of the training; no such
                module.
        """
        (_, model), examples = self.run, self.examples(graphs)
        batches = self._batches(examples.store, examples.graphs, batch_size, device)
        states = hidden_states(model.to(device), batches, module)
        of_pairs = examples.store.y_level == "pair"  # whose rows are none of nodes
        return states if examples.rows is None or of_pairs else states.of_nodes(examples.rows)

    def attention_weights(
        self, graphs: Any, *, device: torch.device | str = "cpu", batch_size: int | None = None
    ) -> dict[str, list[Tensor]]:
        """Attention weights or flows of the model of one run: by layer (heads, n, n) of every graph.

        Row i is what node i receives. With a graph token n counts it, as the first node.

        Args:
            graphs: see :meth:`predict`; where nodes are the examples, whole graphs all the same.
            device: see :meth:`predict`.
            batch_size: see :meth:`predict`.

        Raises:
            UserError: several runs; graphs unlike those of the training; no layer forms such a matrix.
        """
        (_, model), examples = self.run, self.examples(graphs)
        model.to(device)
        found: dict[str, list[Tensor]] = {}
        for batch in self._batches(examples.store, examples.graphs, batch_size, device):
            for name, weights in attention_weights(model, partial(model, batch)).items():
                found.setdefault(name, []).extend(each.cpu() for each in weights)
        return found

    def check_predicts(self) -> None:
        """Refuses a task whose outputs are no row of numbers per graph or node.

        Raises:
            UserError: sequences of words (ogbg-code2).
        """
        if self.info.task_type == "subtoken_prediction":
            raise UserError(
                f"{self.folders[0]}: its model predicts sequences of words; predictions hold a class, or a row "
                "of labels or values, per graph or node. Python has its embeddings and attention_weights."
            )

    def of_store(
        self,
        store: GraphStore,
        graphs: Sequence[int] | None = None,
        *,
        device: torch.device | str = "cpu",
        batch_size: int | None = None,
    ) -> Predictions:
        """Predictions on graphs that have their encodings already.

        Args:
            store: graphs with encodings.
            graphs: numbers of those that are meant; None: all.
            device: see :meth:`predict`.
            batch_size: see :meth:`predict`.

        Raises:
            UserError: see :meth:`check_predicts`.
        """
        self.check_predicts()
        chosen = range(store.num_graphs) if graphs is None else graphs
        outputs = []
        for model in self.models:
            batches = self._batches(store, chosen, batch_size, device)
            with torch.no_grad():
                outputs.append(torch.cat([model.to(device)(batch).float().cpu() for batch in batches]))
        runs = torch.stack([output.reshape(len(output), -1) for output in outputs])
        graph = rows = torch.tensor([*chosen])
        node = target = None
        if store.y_level == "node":
            graph, node = store.nodes_of(chosen)
            rows = store.node_ptr[graph] + node
        elif store.y_level == "pair":
            graph, rows = store.pairs_of(chosen)
            node, target = store.edge_sets["label"].index[:, rows].long()
        y = None if store.y is None else store.y[rows]
        threshold = self.config.tree.model.thresh
        return Predictions(self.info.task_type, runs, graph, node, target, label_threshold=threshold, y=y)

    def calibrate(self, graphs: Any = None, *, coverage: float = 0.9) -> Calibration:
        """Temperature and threshold, for ``calibration.of(model.predict(new_graphs))``.

        Args:
            graphs: with targets, none of which has trained a model; None: the examples that are validation in all
                runs, read again. They have chosen the epochs, so that the coverage holds about, not exactly.
            coverage: share of targets that sets of classes and intervals hold.

        Raises:
            UserError: no or too few examples, or no targets.
        """
        if graphs is None:
            from graphbench.predict.held_out import held_out

            known = held_out(self)
            try:
                assert known.predictions.y is not None
                return Calibration.measured(known.predictions, known.predictions.y, coverage)
            except UserError as error:
                raise UserError(f"{error} {known.note}".rstrip()) from None
        targets = store_of(graphs, self.info.task, what="calibration").y
        if targets is None:
            raise UserError("calibration: the graphs have no targets 'y'.")
        return Calibration.measured(self.predict(graphs), targets, coverage)

    def batch_of(self, graphs: Any) -> GraphBatch:
        """Graphs as the models read them: features, and encodings as in training.

        Raises:
            UserError: the graphs do not look like those of the training.
        """
        store = self._store(graphs)
        return gather(self.config, store, range(store.num_graphs))

    def _store(self, graphs: Any) -> GraphStore:
        store, info = store_of(graphs, self.info.task, targets=False), self.info
        for what, columns, features in (("x", info.node_in, store.x), ("edge_attr", info.edge_in, store.edge_attr)):
            given = 0 if features is None else features.shape[1]
            if given != columns:
                raise UserError(f"graphs: {what} has {given} columns, the graphs of the training had {columns}.")
        for level, features in (("node", store.x), ("edge", store.edge_attr)):
            _check_categories(level, features, self.info.vocabularies.get(level, ()))
        if info.task == "link_pred" and (count := count_answered(store)):
            logger.warning(
                "%d of the %d pairs that are asked about are edges of their graphs: the model sees the answer.",
                *(count, store.edge_sets["label"].num_pairs),
            )
        return encode_store(self.config, store)

    def _batches(
        self, store: GraphStore, graphs: Sequence[int], batch_size: int | None, device: torch.device | str
    ) -> Iterator[GraphBatch]:
        size = batch_size or self.config.tree.train.batch_size
        for first in range(0, len(graphs), size):
            yield gather(self.config, store, graphs[first : first + size]).to(device)


def load_run(folder: str | Path) -> TrainedModel:
    """The models of a run, or of all finished runs of a configuration.

    Args:
        folder: ``results/<config>/<run>``, or ``results/<config>``; what ``graphbench export`` has written; that on
            the Hugging Face Hub, ``hf://<user>/<name>``.

    Raises:
        UserError: no finished run with a checkpoint, or one whose files are damaged or do not belong together.
    """
    folder = local_folder(folder)
    folders = [folder]
    if not (folder / PARAMETERS).is_file() and not (folder / "ckpt").is_dir():
        found = {path.parent: RunRecord.read(path) for path in sorted(folder.glob("*/record.json"))}
        finished = [path for path, record in found.items() if record is not None and record.status == "finished"]
        folders = [path for path in finished if ".old-" not in path.name and (path / "ckpt/best.ckpt").is_file()]
        if not folders:
            if not folder.is_dir():
                raise UserError(f"there is no folder {folder}.{neighbour(folder)}")
            listed = ", ".join(map(str, found)) or "none"
            raise UserError(f"{folder}: no finished run with a checkpoint. Runs there: {listed}.")
    records = [record_of(path) for path in folders]
    names = [record.run_id for record in records]
    if len(set(names)) < len(names):
        raise UserError(f"{folder}: one run is there twice, as a copied folder; records of its runs: {names}.")
    configs = [run_configuration(path) for path in folders]
    hashes = [record.config_hash for record in records]  # without what tells the runs of one from each other
    other = next((path for path, each in zip(folders, hashes, strict=True) if each != hashes[0]), None)
    if other is not None:
        raise UserError(f"{folder}: {other} is a run of another configuration than {folders[0]}; name one of them.")
    infos = [_info(path, config) for path, config in zip(folders, configs, strict=True)]
    models = [_model(*parts) for parts in zip(folders, configs, infos, strict=True)]
    return TrainedModel(configs[0], infos[0], models, folders)


def record_of(folder: Path) -> RunRecord:
    """The record in the folder of a run.

    Raises:
        UserError: there is none that can be read.
    """
    record = RunRecord.read(folder / "record.json")
    if record is None:
        raise UserError(f"{folder}: its record.json is missing or damaged, so that it is unknown what its model is of.")
    return record


def _info(folder: Path, config: Config) -> DataInfo:
    """Facts that the run noted about its data; of older runs those that the data give."""
    file = folder / INFO_FILE
    if file.is_file():
        try:
            noted = json_text.loads_with_checksum(file.read_text(encoding="utf-8"))
            if noted.pop("data", None) not in (None, record_of(folder).fingerprint):
                raise ValueError("it is of other data than the run")
            return DataInfo.from_plain(noted)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"{file}: damaged, or of another run ({error}). Put back the run's own, or move it away: what the data "
                "looks like is then read from the data."
            ) from error
    loaded = read_data(config)
    return loaded.card.info(loaded.store)


def _model(folder: Path, config: Config, info: DataInfo) -> nn.Module:
    model = build_model(config, info)
    try:
        _, best = read_best_of(folder, folder.name)
        model.load_state_dict(best["model"])
    except RuntimeError as error:
        raise UserError(f"{folder}: its checkpoint does not fit its configuration ({error}).") from error
    return model.eval()


def _check_categories(level: str, features: Any, vocabulary: Sequence[int]) -> None:
    """Refuses categories that no training graph could have had; whole numbers may be written as floats."""
    if not isinstance(features, Tensor):
        return
    for column, (values, count) in enumerate(zip(features.unbind(1), vocabulary, strict=False)):
        wrong = values[(values != values.long()) | (values < 0) | (values >= count)]
        if len(wrong):
            raise UserError(
                f"graphs: column {column} of the {level} features has {wrong[0].item():.7g}; the training had "
                f"categories, whole numbers from 0 to {count - 1}."
            )
