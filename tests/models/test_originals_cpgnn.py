"""CPGNN against its authors' program, see ``originals.py``: loss of both stages, and the first compatibilities."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from graphbench.contract import take_auxiliary_loss
from graphbench.models.cpgnn import estimated_compatibility
from graphbench.structures import GraphBatch
from graphbench.structures.known_targets import KNOWN
from tests.models.originals import Weights, batch_of, compare, configured, read

NETWORKS = pytest.mark.parametrize("network", ["mlp", "cheby"])


def graph(recorded: dict[str, Any], **fields: Any) -> GraphBatch:
    y, known = (torch.tensor(recorded["arguments"][name]) for name in ("y", "train"))
    return batch_of(["seven"], y=y, pe={KNOWN: known.bool()}, **fields)


@NETWORKS
@pytest.mark.parametrize("mode", ["pretrain", "train"])
def test_losses_of_both_stages(network: str, mode: str) -> None:
    recorded = read(f"cpgnn_{network}")
    own = recorded["arguments"]
    settings = {"classes": 3, "pretrain": int(mode == "pretrain"), "iterations": int(own["network_setup"][-1])}
    name = {"mlp": "squirrel", "cheby": "cora"}[network]
    model = configured(
        f"nodes/cpgnn-{name}",
        gnn__dim_inner=8,
        gnn__dropout=0,
        gt__dim_hidden=8,
        **{f"gt__CPGNN__{key}": value for key, value in settings.items()},
    )
    model.propagation.step = int(mode == "train")  # the estimate of H is compared below
    batch = graph(recorded)

    def ours(weights: Weights) -> dict[str, Tensor]:
        *maps, last = [value for key, value in weights.items() if key.startswith("kernel")]
        state = {"lin.weight": torch.cat([each.t() for each in maps])}
        state["head.mlp.lin.0.weight"] = last.reshape(-1, 3).t()
        state["head.mlp.lin.0.bias"] = torch.zeros(3, dtype=torch.float64)
        return state | {"propagation.compatibility": weights["H"]}

    def loss(output: Tensor) -> Tensor:
        auxiliary = take_auxiliary_loss(model.modules())
        assert batch.y is not None
        assert auxiliary is not None
        value = F.cross_entropy(output[batch.pe[KNOWN]], batch.y[batch.pe[KNOWN]]) + auxiliary
        assert value.item() == pytest.approx(recorded[mode]["loss"], rel=1e-12)
        return value

    compare(recorded, mode, model, lambda m, i: m(batch.replace(x=i["x"])), ours, loss)


@NETWORKS
def test_first_compatibilities(network: str) -> None:
    recorded = read(f"cpgnn_{network}")
    prior, expected = (
        torch.tensor(each, dtype=torch.float64) for each in (recorded["pretrain"]["output"], recorded["H"])
    )
    batch = graph(recorded)
    assert batch.y is not None
    found = estimated_compatibility(prior, batch.y, batch.pe[KNOWN], batch)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
