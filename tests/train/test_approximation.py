"""The error of approximate predictions, against the predictions themselves."""

from __future__ import annotations

import pytest
import torch

from graphbench.data.large.partition_loader import PartitionLoader
from graphbench.train.accelerator import make_fabric
from graphbench.train.approximation import approximation_error
from graphbench.train.forward import BatchAdapter, Predictor
from tests.data.large.large_graphs import one_graph, split_of
from tests.loader_options import options_of
from tests.train.tiny_run import tiny_task


class Counting(torch.nn.Module):
    """Class scores of a node: how many edges of the batch enter it, and two constants."""

    def forward(self, batch):
        degree = torch.bincount(batch.edge_index[1], minlength=batch.num_nodes).to(batch.x.dtype)
        return torch.stack([degree, torch.full_like(degree, 3.0), torch.zeros_like(degree)], dim=1)


def measured(model=None, **options):
    loaders = PartitionLoader(one_graph(), split_of(one_graph()), options_of({"parts": 3, **options}))
    fabric = make_fabric("cpu")
    predict = Predictor(fabric, BatchAdapter((model or Counting()).eval()))
    return loaders, approximation_error(predict, tiny_task(), loaders, fabric)


def test_errors_are_those_of_metrics_and_predictions():
    loaders, errors = measured(evaluation="random_node", exact="full_batch")
    store, model, task, (parts,) = one_graph(), Counting(), tiny_task(), loaders.passes
    whole = model(store.gather([0]))
    cut = torch.cat([model(batch) for batch, _ in parts.batches()])
    for split in ("val", "test"):
        nodes = split_of(store).parts()[split]
        approximate, exact = cut[parts.rows[split]], whole[nodes]
        y = store.y[nodes]
        of_exact, of_cut = task.evaluate(exact, y), task.evaluate(approximate, y)
        expected = {name: of_cut[name] - of_exact[name] for name in of_exact}
        expected["predictions"] = float((approximate - exact).norm() / exact.norm())
        assert errors[split] == pytest.approx(expected, rel=1e-5, abs=1e-6)
        assert errors[split]["predictions"] > 0.1


def test_nothing_is_measured_where_there_is_nothing_to_compare():
    assert measured(evaluation="full_batch", exact="full_batch")[1] == {}
    assert measured(evaluation="random_node")[1] == {}


def test_a_graph_that_does_not_fit_leaves_the_error_unknown(caplog):
    class Large(Counting):
        def forward(self, batch):
            if batch.num_nodes == 60:
                raise MemoryError("out of memory")
            return super().forward(batch)

    assert measured(Large(), evaluation="random_node", exact="full_batch")[1] == {}
    assert "the error of that is not known: out of memory" in caplog.text
