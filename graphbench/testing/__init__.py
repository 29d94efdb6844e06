"""Checks for components of your own, those that the package's own components pass.

In a test of yours::

    from graphbench.testing import check_layer
    from my_attention import MyAttention

    def test_my_attention():
        check_layer(MyAttention, scale=0.5)

``graphbench check FILE --contract`` runs them for the plug-ins of a configuration.
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
from graphbench.testing.graphs import example_batch
from graphbench.testing.layers import check_layer, layer_checks, layer_subject

__all__ = [
    "CHECKS",
    "Subject",
    "check_batch_independence",
    "check_corner_cases",
    "check_determinism",
    "check_dropout",
    "check_gradients",
    "check_layer",
    "check_outputs",
    "check_permutation",
    "check_state_dict",
    "check_untouched",
    "example_batch",
    "layer_checks",
    "layer_subject",
    "shaken",
]
