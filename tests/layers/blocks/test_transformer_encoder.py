"""The block against torch's ``TransformerEncoderLayer``, graph by graph."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphbench.layers.blocks.transformer_encoder import TransformerEncoder
from tests.contract import example_batch, shaken


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("ffn_dim", [None, 10])
def test_block_is_torchs_encoder_layer(norm_first: bool, ffn_dim: int | None) -> None:
    block = shaken(TransformerEncoder(12, 3, ffn_dim=ffn_dim, ffn_act="gelu", norm_first=norm_first).double()).eval()
    peer = nn.TransformerEncoderLayer(
        12, 3, ffn_dim or 48, 0.0, "gelu", batch_first=True, norm_first=norm_first, dtype=torch.float64
    )
    names = {
        "attention.qkv.": "self_attn.in_proj_",
        "attention.out.": "self_attn.out_proj.",
        "feed_forward.lin_in.": "linear1.",
        "feed_forward.lin_out.": "linear2.",
        "norm_attention.": "norm1.",
        "norm_ffn.": "norm2.",
    }
    state = block.state_dict()
    peer.load_state_dict({b + part: state[a + part] for a, b in names.items() for part in ("weight", "bias")})
    batch = example_batch()
    h, _, _ = block(batch.x, None, batch)
    expected = torch.cat([peer(graph[None])[0] for graph in batch.x.split(batch.ragged.sizes)])
    torch.testing.assert_close(h, expected)
