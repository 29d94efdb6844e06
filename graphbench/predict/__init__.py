"""Trained models on new graphs.

::

    model = graphbench.load_run("results/rings")     # all its runs together, or one: "results/rings/0"
    predictions = model.predict(graphs)              # Data objects, dicts, networkx graphs, a data set of PyG, ...
    predictions.label, predictions.probability, predictions.std

``trained.py`` finds and builds the models, ``predictions.py`` is what comes out, ``export.py`` writes a run as a folder
to hand on; ``cli.py`` and ``export.py`` are commands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphbench.predict.trained import TrainedModel, load_run

__all__ = ["TrainedModel", "load_run"]


def __getattr__(name: str) -> Any:
    """Imports PyTorch and models only for whoever loads one: the commands' help must be fast."""
    if name in __all__:
        from graphbench.predict import trained

        return getattr(trained, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
