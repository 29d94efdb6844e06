"""The stacked model: order of its parts, and GraphGym's layers before the blocks."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphbench.layers.contract import Block
from graphbench.models.pre_layers import LayerSettings, PreLayer, pre_layers
from graphbench.models.stacked import GPSModel
from graphbench.structures import GraphBatch, Ragged


class _Encoder(nn.Module):
    def __init__(self, dim_in, dim, level="x"):
        super().__init__()
        self.lin = nn.Linear(dim_in, dim)
        self.level = level

    def forward(self, batch):
        return self.lin(getattr(batch, self.level))


class _NodeEncoder(_Encoder):
    def forward(self, batch):
        return super().forward(batch), batch


class _Block(Block):
    """h_i <- W h_i + sum of the edge states into i; e <- 2 e."""

    def __init__(self, dim):
        super().__init__()
        self.lin = nn.Linear(dim, dim)

    def forward(self, h, e, batch):
        if e is None:
            return self.lin(h), None, batch
        return self.lin(h).index_add(0, batch.edge_index[1], e), 2 * e, batch


class _Head(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.lin = nn.Linear(dim, 2)

    def forward(self, h, batch):
        return self.lin(h)


@pytest.fixture
def batch():
    return GraphBatch(
        Ragged.from_sizes([3, 2]),
        torch.tensor([[0, 1, 3, 4], [1, 0, 4, 3]]),
        x=torch.randn(5, 4),
        edge_attr=torch.randn(4, 3),
    )


def _model(**changes):
    arguments = {
        "encoder": _NodeEncoder(4, 6),
        "dim_encoded": 6,
        "edge_encoder": _Encoder(3, 6, "edge_attr"),
        "dim": 6,
        "layers": 2,
        "block": lambda: _Block(6),
        "head": _Head,
    }
    return GPSModel(**{**arguments, **changes})


def test_encoders_then_blocks_then_head(batch):
    model = _model()
    (h, _), e = model.encoder(batch), model.edge_encoder(batch)
    h, e, _ = model.layers[0](h, e, batch)
    h, _, _ = model.layers[1](h, e, batch)
    assert torch.equal(model(batch), model.head(h, batch))


def test_without_edge_encoder_blocks_receive_none(batch):
    assert _model(edge_encoder=None)(batch).shape == (5, 2)


@pytest.mark.filterwarnings("ignore")  # importing PyTorch Geometric's GraphGym warns on new versions of torch
@pytest.mark.parametrize("batchnorm", [True, False])
@pytest.mark.parametrize("l2norm", [True, False])
@pytest.mark.parametrize("act", ["relu", "prelu"])
def test_layers_before_the_blocks_are_graphgyms(batchnorm, l2norm, act):
    from torch_geometric.graphgym.models.layer import GeneralMultiLayer, LayerConfig

    config = LayerConfig(
        dim_in=5, dim_out=8, dim_inner=8, num_layers=2, has_batchnorm=batchnorm, has_l2norm=l2norm, act=act, dropout=0.0
    )
    theirs = GeneralMultiLayer("linear", config)
    settings = LayerSettings(batchnorm=batchnorm, act=act, l2norm=l2norm)
    ours = nn.Sequential(*(PreLayer(d, 8, settings) for d in (5, 8)))
    with torch.no_grad():
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert a.shape == b.shape
            a.copy_(b.copy_(torch.rand_like(b)))
    x = torch.randn(10, 5)
    torch.testing.assert_close(ours(x), theirs(x))
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))


def test_layers_before_the_blocks_map_any_width(batch):
    model = _model(
        encoder=_NodeEncoder(4, 9), dim_encoded=9, pre_mp=pre_layers(9, 6, 2, LayerSettings(act="gelu", dropout=0.5))
    )
    assert [layer.lin.weight.shape for layer in model.pre_mp] == [(6, 9), (6, 6)]
    assert model(batch).shape == (5, 2)
    assert model.pre_mp[0].dropout.p == 0.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dim_encoded": 9}, "gives 9 columns and the blocks read 6.*layers_pre_mp"),
        ({"layers": -1}, "layers must be at least 0, received -1"),
    ],
)
def test_wrong_values_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        _model(**changes)
