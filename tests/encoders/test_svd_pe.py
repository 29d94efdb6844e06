"""Relative encodings by a truncated singular value decomposition: map, signs, way through a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from graphbench import factory
from graphbench.config import load_config
from graphbench.encoders.positional.svd_pe import SVDPE
from graphbench.errors import UserError
from graphbench.structures import GraphBatch, Ragged
from tests.paths import ROOT
from tests.synthetic_batch import batch_like

CONFIGS = ROOT / "configs"
ON = ["posenc_SVDPE.enable", "true", "posenc_SVDPE.rank", "4", "posenc_SVDPE.dim_pe", "6"]


def batch_of(rows: torch.Tensor, sizes: tuple[int, ...]) -> GraphBatch:
    return GraphBatch(Ragged.from_sizes(sizes), torch.empty(2, 0, dtype=torch.int64), pe={"SVDPE.vectors": rows})


def test_signs_are_drawn_per_graph_and_column_in_training_only() -> None:
    encoder, rows, sizes = SVDPE(5, rank=3), torch.randn(7, 3), (4, 0, 3)
    batch = batch_of(rows, sizes)
    assert torch.equal(encoder.eval()(batch), encoder.lin(rows))
    encoder.train()
    seen = set()
    with torch.no_grad():
        encoder.lin.weight.copy_(torch.eye(5, 3))
        encoder.lin.bias.zero_()
    for _ in range(60):
        signs = encoder(batch)[:, :3] / rows
        for part in (signs[:4], signs[4:]):
            torch.testing.assert_close(part.abs(), torch.ones_like(part))
            assert torch.equal(part.sign(), part[:1].sign().expand_as(part))
        seen.add(tuple(signs[[0, 4]].sign().flatten().tolist()))
    assert len(seen) > 25, "six independent coins"


@pytest.mark.parametrize("matrix", ["adjacency", "distance"])
def test_columns_beside_the_features(matrix: str, tmp_path: Path) -> None:
    config = load_config(
        CONFIGS / "nodes/geco-cora.yaml",
        [*ON, "posenc_SVDPE.matrix", matrix, "dataset.node_encoder_name", "LinearNode+SVDPE"],
    )
    info = factory.declared_info(config)
    model, transforms = factory.build_model(config, info), factory.build_transforms(config)
    assert (transforms["SVDPE"].rank, transforms["SVDPE"].matrix) == (4, matrix)
    batch = batch_like(info, transforms, tmp_path)
    assert batch.pe["SVDPE.vectors"].shape == (batch.num_nodes, 4)
    model.eval()
    h, _ = model.encoder(batch)
    assert h.shape == (batch.num_nodes, 64)
    torch.testing.assert_close(h[:, 58:], model.encoder.positional["SVDPE"](batch))
    model(batch).square().sum().backward()
    assert model.encoder.positional["SVDPE"].lin.weight.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["posenc_SVDPE.matrix", "distances"], "posenc_SVDPE.matrix received 'distances'. Did you mean 'distance'"),
        (["posenc_SVDPE.rank", "0"], "posenc_SVDPE.rank: rank must be at least 1, received 0"),
        (["posenc_SVDPE.raw_norm_type", "layer"], "SVDPE: raw_norm_type must be none or BatchNorm, received 'layer'"),
    ],
)
def test_messages(overrides: list[str], message: str) -> None:
    named = [*ON, *overrides, "dataset.node_encoder_name", "LinearNode+SVDPE"]

    def make() -> None:
        config = load_config(CONFIGS / "nodes/geco-cora.yaml", named)
        factory.build_model(config, factory.declared_info(config))

    with pytest.raises(UserError, match=message):
        make()


def test_wrong_widths() -> None:
    with pytest.raises(ValueError, match="dim_pe must be at least 1, received 0"):
        SVDPE(0)
