"""Trained models on the Hugging Face Hub: ``hf://<user>/<name>[@<revision>]`` where a folder of a run is expected."""

from __future__ import annotations

from pathlib import Path

from graphbench.errors import UserError

PREFIX = "hf://"
PARAMETERS = "model.safetensors"
"""Parameters in a folder that ``graphbench export`` has written."""
FILES = (PARAMETERS, "config.yaml", "record.json", "data_info.json")
"""Files that are downloaded: nothing that is ever run."""


def local_folder(source: str | Path) -> Path:
    """The folder itself, or the downloaded copy of one on the Hub, which is kept and found again without a network.

    Raises:
        UserError: it is not on the Hub, the Hub does not answer, or its library is not installed.
    """
    text = str(source)
    if not text.startswith(PREFIX):
        return Path(source).expanduser()
    name, _, revision = text.removeprefix(PREFIX).partition("@")
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise UserError(f"{text}: models on the Hub need huggingface_hub: pip install 'graphbench-gt[hub]'.") from None
    try:
        return Path(snapshot_download(name, revision=revision or None, allow_patterns=list(FILES)))
    except Exception as error:  # of a client that talks to a server: many kinds, each with a complete sentence
        reason = str(error).partition("\n")[0]
        raise UserError(f"{text}: not downloaded ({type(error).__name__}: {reason}).") from error
