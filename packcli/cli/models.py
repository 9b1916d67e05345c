"""Model directories: a folder, or the name of a repository on the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path

from packcli.contract.errors import InputError

_FILES = ["*.json", "*.jinja", "merges.txt", "vocab.json"]
_REMEDY = (
    "check the name, the network and HF_HUB_OFFLINE, log in with `hf auth login` if it is gated, "
    "or name a folder with the model's files"
)


def model_directory(name: str) -> Path:
    """Return the folder of a model's tokenizer, template and processor files.

    A name that is no folder is looked up in the hub's cache, and downloaded unless
    ``HF_HUB_OFFLINE`` forbids it; weights never are.

    Raises:
        InputError: there is no such folder or repository.
    """
    path = Path(name)
    if path.is_dir():
        return path
    if name.count("/") != 1 or name.startswith((".", "/", "~")):
        raise InputError(
            f"{name}: no such model directory; name a folder with config.json and tokenizer.json, "
            "or a repository on the hub as OWNER/NAME"
        )
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=_FILES))
    except Exception as error:
        raise InputError(
            f"{name}: no such folder, and not to be had from the hub ({_reason(error)}); {_REMEDY}"
        ) from error


def _reason(error: Exception) -> str:
    """Keep the first sentence of what the hub's library says."""
    told = " ".join(str(error).split()).partition(". ")[0].removesuffix(".")
    return f"{type(error).__name__}: {told}" if told else type(error).__name__
