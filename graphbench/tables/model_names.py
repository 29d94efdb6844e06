"""Names of models, where no sweep file gives them."""

from __future__ import annotations


def model_name(config: str, dataset: str) -> str:
    """The name of a configuration without the data set: ``sgformer-cora`` on Cora is ``sgformer``.

    What is left out is the last part, if the data set's name begins with it or ends in it.
    """
    name, separator, last = config.rpartition("-")
    plain = dataset.casefold()
    return name if separator and (plain.startswith(last.casefold()) or plain.endswith(last.casefold())) else config
