"""Names of models, where no sweep file gives them."""

from __future__ import annotations


def model_name(config: str, dataset: str) -> str:
    """The name of a configuration without the data set: ``sgformer-cora`` on Cora is ``sgformer``.

    What is left out is the last part that the data set's name begins with or ends in, so that a ``name_tag`` may follow
    (``sgformer-cora-wide``: ``sgformer-wide``) and the data set may come first (``zinc-GPS``: ``GPS``).
    """
    parts, plain = config.split("-"), dataset.casefold()
    fitting = [i for i, part in enumerate(parts) if part and _is_end(part.casefold(), plain)]
    if not fitting or len(parts) == 1:
        return config
    return "-".join(parts[: fitting[-1]] + parts[fitting[-1] + 1 :])


def _is_end(part: str, name: str) -> bool:
    return name.startswith(part) or name.endswith(part)
