"""Checks for components of your own, those that the package's own components pass.

One function for each kind: :func:`check_layer` (attentions, local layers, blocks), :func:`check_encoder`,
:func:`check_transform`, :func:`check_model`, :func:`check_head`, :func:`check_loss`, :func:`check_metric`. In a test of
yours::

    from graphbench.testing import check_layer
    from my_attention import MyAttention

    def test_my_attention():
        check_layer(MyAttention, scale=0.5)

``graphbench check FILE --contract`` runs them for what a configuration takes from plug-ins.
"""

from graphbench.testing.checks import (
    CHECKS,
    Subject,
    check_batch_independence,
    check_corner_cases,
    check_determinism,
    check_dropout,
    check_gradients,
    check_outputs,
    check_permutation,
    check_state_dict,
    check_untouched,
    shaken,
)
from graphbench.testing.encoders import check_encoder
from graphbench.testing.graphs import example_batch
from graphbench.testing.heads import check_head
from graphbench.testing.layers import check_layer, layer_checks, layer_subject
from graphbench.testing.losses import check_loss
from graphbench.testing.metrics import check_metric
from graphbench.testing.models import check_model
from graphbench.testing.transforms import check_transform

__all__ = [
    "CHECKS",
    "Subject",
    "check_batch_independence",
    "check_corner_cases",
    "check_determinism",
    "check_dropout",
    "check_encoder",
    "check_gradients",
    "check_head",
    "check_layer",
    "check_loss",
    "check_metric",
    "check_model",
    "check_outputs",
    "check_permutation",
    "check_state_dict",
    "check_transform",
    "check_untouched",
    "example_batch",
    "layer_checks",
    "layer_subject",
    "shaken",
]
