"""Complete Gradformer models, built from configurations, against the recorded numbers of the released code."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from graphbench.config import load_config
from graphbench.factory.data import declared_info
from graphbench.factory.model import build_model
from graphbench.factory.transforms import build_transforms
from graphbench.structures import GraphBatch, Ragged
from tests.layers.attention.test_gradformer import hops_of
from tests.models.recorded import GPS_NAMES, close, load, with_packed_attention
from tests.paths import ROOT

# Configuration of the same kind, what the recorded model has smaller or otherwise, and widths of the data.
RECORDED: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "model_tu_style": (
        "tu/gradformer-nci1",
        {"posenc_RWSE.dim_pe": 16, "posenc_RWSE.raw_norm_type": "BatchNorm"},
        {"node_in": 5, "out_dim": 2},
    ),
    "model_zinc_style": ("gnnbench/gradformer-zinc", {"posenc_RWSE.dim_pe": 6}, {}),
    "model_cluster_style": (
        "gnnbench/gradformer-cluster",
        {
            **{"posenc_LapPE.dim_pe": 6, "posenc_LapPE.eigen.max_freqs": 6},
            **{"dataset.edge_encoder_name": "TypeDictEdge", "dataset.edge_encoder_num_types": 2},
        },
        {},
    ),
}


def renamed(key: str, encoding: str) -> str:
    """Recorded name -> ours."""
    lin = "lin" if encoding == "RWSE" else "lin_in"
    for old, new in {
        "head.lin.": "head.mlp.lin.0.",
        "head.mlp.0.": "head.lin.0.",
        "head.mlp.1.": "head.lin.1.",
        "head.mlp.2.": "head.lin.2.",
        "encoder.pe_norm.": f"encoder.positional.{encoding}.raw_norm.",
        "encoder.pe_lin.": f"encoder.positional.{encoding}.{lin}.",
        "encoder.node_lin.": "encoder.features.lin.",
        "encoder.node_emb.": "encoder.features.type_emb.",
        "encoder.edge_emb.": "edge_encoder.features.type_emb.",
        **GPS_NAMES,
    }.items():
        if old in key:
            key = key.replace(old, new)
            if old.startswith(("head", "encoder")):
                break
    return key


def packed(recorded: dict[str, Any]) -> dict[str, Any]:
    """q, k and v in one tensor, the start points in every layer."""
    arrays = with_packed_attention(recorded)
    for kind in ("w", "grad"):
        start = arrays.pop(f"{kind}/start")
        for layer in range(recorded["config"]["layers"]):
            arrays[f"{kind}/layers.{layer}.branches.1.part.start"] = start
    return arrays


@pytest.mark.parametrize("name", RECORDED)
def test_whole_models_equal_the_released_ones(golden: Any, name: str) -> None:
    recorded = golden(f"gradformer/{name}")
    size, (path, changes, widths) = recorded["config"], RECORDED[name]
    encoding = "LapPE" if "posenc_LapPE.dim_pe" in changes else "RWSE"
    values = {
        **{"gt.layers": size["layers"], "gt.n_heads": size["heads"]},
        **{"gt.dim_hidden": size["dim"], "gnn.dim_inner": size["dim"]},
        **{"gt.Gradformer.decay": size["gamma"], "gt.Gradformer.slope": size["slope"]},
        **({"posenc_RWSE.kernel.times_func": "range(1,7)"} if encoding == "RWSE" else {}),
        **changes,
    }
    config = load_config(ROOT / f"configs/{path}.yaml", [str(each) for pair in values.items() for each in pair])
    info = dataclasses.replace(declared_info(config), **widths)
    model = build_model(config, info).double().eval()
    assert "ShortestPaths" in build_transforms(config)

    def ours(key: str) -> str:
        return renamed(key, encoding)

    arrays = packed(recorded)
    load(model, arrays, ours)
    unused = sum(size["allocated_but_unused"].values())  # encoders and heads for other data sets
    assert sum(each.numel() for each in model.parameters()) == size["parameters_total"] - unused
    edge_attr = recorded.get("in/edge_attr")
    batch = GraphBatch(
        Ragged.from_sizes(recorded["in/ptr"].diff().tolist()),
        recorded["in/edge_index"],
        x=recorded["in/x"],
        edge_attr=edge_attr,
        pe={"RWSE.landing": recorded["in/pe"], "LapPE.eigvecs": recorded["in/pe"]},
        pairs=hops_of(recorded),
    )
    pred = model(batch)
    close(pred, recorded["out/pred"], "prediction")
    (pred * recorded["in/grad_seed.pred"]).sum().backward()
    parameters = {name: each for name, each in model.named_parameters(remove_duplicate=False) if each.grad is not None}
    for key, expected in arrays.items():
        if key.startswith("grad/") and not key.startswith("grad/in."):
            close(parameters.pop(ours(key[5:])).grad, expected, key)
    assert not parameters
