"""Methods for long-range graphs against the authors' programs, see ``originals.py``."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor

from graphbench import registry
from graphbench.encoders.compose import NodeEncoder
from graphbench.models.drew import DRew
from graphbench.models.pre_layers import LayerSettings
from tests.models.originals import Weights, batch_of, compare, distances, read


@pytest.mark.parametrize(("name", "mode"), [("drew", "eval"), ("drew", "train"), ("drew_plain", "train")])
def test_drew(name: str, mode: str) -> None:
    """One graph has no nodes as far apart as the other; states are read that are up to three layers old, and none."""
    recorded = read(name)
    own = recorded["arguments"]
    arguments = {
        "encoder": NodeEncoder(None, {}, 6, batch_norm=False),
        "dim_encoded": 6,
        "dim": 6,
        "layers": own["layers"],
        "head": lambda _: lambda states, _: states,
        "post": LayerSettings(batchnorm=own["batchnorm"], l2norm=own["l2norm"]),
        "hops": own["hops"],
        "nu": None if own["nu"] < 0 else own["nu"],
    }
    parts = {r"lin\.weight": "weight", r"model\.bias": "bias"}
    parts |= {rf"post_layer\.0\.{part}": f"norm.{part}" for part in ("weight", "bias", "running_mean", "running_var")}

    def ours(weights: Weights) -> dict[str, Tensor]:
        state = {}
        for t in range(own["layers"]):
            for theirs, part in parts.items():
                # by k, in the order in which the original made them
                rows = [value for name, value in weights.items() if re.search(rf", t={t}\..*{theirs}$", name)]
                if rows:
                    state[f"layers.{t}.{part}"] = torch.cat(rows) if "norm" in part else torch.stack(rows)
            state[f"layers.{t}.weight"] = state[f"layers.{t}.weight"].transpose(1, 2)
        return state

    batch = batch_of(own["graphs"], pairs=distances(own["graphs"]))
    compare(
        recorded,
        mode,
        registry.construct(DRew, arguments),
        lambda model, inputs: model(batch.replace(x=inputs["x"])),
        ours,
    )
