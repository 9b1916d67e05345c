"""The token that a model's batches are filled up with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from packcli.contract.errors import InputError
from packcli.families.processors.model_files import section

if TYPE_CHECKING:
    from packcli.families.processors.model_files import ModelFiles


def pad_token_id(files: ModelFiles) -> int | None:
    """Return the id of the padding token, else of the end token; None where no file names one.

    The tokenizer's word comes first, as its processor pads with it.

    Raises:
        InputError: tokenizer.json is needed and cannot be read.
    """
    text = section(files.config, "text_config")
    for name in ("pad_token", "eos_token"):
        content = files.tokenizer.get(name)
        if isinstance(content, dict):
            content = cast("dict[str, Any]", content).get("content")
        named = None if content is None else _added_id(files, str(content))
        for found in (named, files.config.get(f"{name}_id"), text.get(f"{name}_id")):
            first = cast("list[Any]", found)[:1] if isinstance(found, list) else [found]
            if first and isinstance(first[0], int):
                return first[0]
    return None


def _added_id(files: ModelFiles, content: str) -> int | None:
    """Find a token among those that a tokenizer was given by name."""
    for number, entry in section(files.tokenizer, "added_tokens_decoder").items():
        if isinstance(entry, dict) and cast("dict[str, Any]", entry).get("content") == content:
            return int(number)
    path = files.directory / "tokenizer.json"
    if not path.is_file():
        return None
    try:
        entries = json.loads(path.read_bytes()).get("added_tokens") or ()
        return next((int(one["id"]) for one in entries if one["content"] == content), None)
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise InputError(f"{path}: no tokenizer can be read: {error}; copy it again") from error
