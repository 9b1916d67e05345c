"""A model directory's JSON files, and single values out of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from packcli.contract.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from packcli.contract.model import ModelFacts

Values = Mapping[str, Any]

_NO_VALUES: Values = {}


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """What a family is opened from.

    Attributes:
        directory: where the files lie.
        config: config.json.
        image: the image processor's values.
        video: the video processor's values; the image processor's where it has no file of its own.
        processor: processor_config.json, what belongs to neither of the two.
        tokenizer: tokenizer_config.json, for the names of tokens.
    """

    directory: Path
    config: Values
    image: Values
    video: Values
    processor: Values = field(default_factory=dict[str, Any])
    tokenizer: Values = field(default_factory=dict[str, Any])

    @property
    def model_type(self) -> str:
        """The `model_type` of config.json."""
        return str(self.config["model_type"])


def read_model_files(directory: Path) -> ModelFiles:
    """Read a model directory.

    Values nested in processor_config.json come before the separate files, and a video processor
    without values takes the image processor's. Matches transformers'
    `get_video_processor_dict` (video_processing_utils) and `get_image_processor_dict`.

    Raises:
        InputError: config.json is missing or has no `model_type`, or a file is no JSON object.
    """
    config = _read(directory / "config.json")
    if config is None or not isinstance(config.get("model_type"), str):
        raise InputError(
            f"{directory}: expected a model directory whose config.json has a model_type, found "
            f"{'no config.json' if config is None else 'no model_type'}; name another directory"
        )
    nested = _read(directory / "processor_config.json") or _NO_VALUES
    image = _first(nested.get("image_processor"), _read(directory / "preprocessor_config.json"))
    video = _first(
        nested.get("video_processor"),
        _read(directory / "video_preprocessor_config.json"),
        _read(directory / "preprocessor_config.json"),
    )
    tokenizer = _read(directory / "tokenizer_config.json") or _NO_VALUES
    return ModelFiles(directory, config, image, video, nested, tokenizer)


def section(values: Values, key: str) -> Values:
    """Return the object under `key`, empty when there is none."""
    found = values.get(key)
    return cast("Values", found) if isinstance(found, Mapping) else _NO_VALUES


def number(values: Values, key: str, default: float) -> float:
    """Return the number under `key`; absent and null mean `default`, as in transformers.

    Raises:
        InputError: something else than a number.
    """
    found = values.get(key)
    if found is None:
        return default
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise InputError(f"model directory: {key} must be a number, found {found!r}; correct it")
    return found


def whole(values: Values, key: str, default: int) -> int:
    """Return the whole number under `key`; absent and null mean `default`.

    Raises:
        InputError: something else than a whole number of at least 1.
    """
    found = number(values, key, default)
    if found != int(found) or found < 1:
        raise InputError(
            f"model directory: {key} must be a whole number above 0, found {found}; correct it"
        )
    return int(found)


def sides(values: Values, key: str, default: tuple[int, int] | None = None) -> tuple[int, int]:
    """Return a height and a width, however they are written: a number, a pair or an object.

    Args:
        values: of one file.
        key: their name, e.g. `size` or `patch_size`.
        default: what absent and null mean; None for an error.

    Raises:
        InputError: they are none of these.
    """
    found = values.get(key)
    if found is None and default is not None:
        return default
    if isinstance(found, int) and not isinstance(found, bool) and found > 0:
        return found, found
    if isinstance(found, list) and len(cast("list[Any]", found)) == len(("height", "width")):
        height, width = cast("list[Any]", found)
        named: Values = {"height": height, "width": width}
        return whole(named, "height", 0), whole(named, "width", 0)
    if isinstance(found, Mapping):
        named = cast("Values", found)
        if named.get("height") is not None and named.get("width") is not None:
            return whole(named, "height", 0), whole(named, "width", 0)
    raise InputError(f"model directory: {key} needs height and width, found {found!r}; correct it")


def edge(values: Values, key: str, name: str, default: int | None = None) -> int:
    """Return one edge of a size, e.g. `longest_edge` of `size`.

    Args:
        values: of one file.
        key: the size.
        name: the edge.
        default: what an absent size means; None for an error.

    Raises:
        InputError: the size is there, and its edge is not.
    """
    size = section(values, key)
    if not size and default is not None:
        return default
    if size.get(name) is None:
        raise InputError(f"model directory: {key} lacks {name}, found {sorted(size)}; add it")
    return whole(size, name, 0)


def text(values: Values, key: str, default: str) -> str:
    """Return the text under `key`; absent and null mean `default`.

    Raises:
        InputError: something else than text.
    """
    found = values.get(key)
    if found is None:
        return default
    if not isinstance(found, str):
        raise InputError(f"model directory: {key} must be text, found {found!r}; correct it")
    return found


def token_text(files: ModelFiles, name: str, default: str) -> str:
    """Return the string of a token that the tokenizer's file may name, e.g. `image_token`.

    Matches the attributes that transformers' tokenizers take from extra special tokens
    (tokenization_utils_base).
    """
    named = files.tokenizer
    for values in (
        section(named, "model_specific_special_tokens"),
        section(named, "extra_special_tokens"),
        named,
    ):
        found = values.get(name)
        if isinstance(found, Mapping):
            found = cast("Values", found).get("content")
        if isinstance(found, str):
            return found
    return default


def media_facts(files: ModelFiles, defaults: ModelFacts, *, merge_size: int = 1) -> ModelFacts:
    """Return the facts of a vision model, with config.json's numbers where it has them.

    Args:
        files: the model directory.
        defaults: what the family's configuration class says.
        merge_size: patches per side of a slot.

    Raises:
        InputError: a number has the wrong type.
    """
    config = files.config
    vocab = whole(config, "vocab_size", defaults.vocab_size)
    return replace(
        defaults,
        vocab_size=whole(section(config, "text_config"), "vocab_size", vocab),
        image_token_id=_token_id(config, "image_token", defaults.image_token_id),
        video_token_id=_token_id(config, "video_token", defaults.video_token_id),
        merge_size=merge_size,
        linear_attention=linear_attention(config),
    )


def _token_id(config: Values, name: str, default: int | None) -> int | None:
    if default is None:
        return None
    # both spellings are in use; a configuration class takes one of them and aliases the other
    return whole(config, f"{name}_id", whole(config, f"{name}_index", default))


def flag(values: Values, key: str, *, default: bool) -> bool:
    """Return the truth value under `key`; absent and null mean `default`.

    Raises:
        InputError: something else than true or false.
    """
    found = values.get(key)
    if found is None:
        return default
    if not isinstance(found, bool):
        raise InputError(f"model directory: {key} must be true or false, found {found!r}")
    return found


def _first(*candidates: Any) -> Values:  # noqa: ANN401 - JSON values of any kind come in
    return next((c for c in candidates if isinstance(c, Mapping)), _NO_VALUES)


def _read(path: Path) -> Values | None:
    if not path.is_file():
        return None
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: expected JSON, found {error}; restore the file") from error
    if not isinstance(found, dict):
        raise InputError(f"{path}: expected a JSON object; restore the file")
    return cast("Values", found)


def linear_attention(config: Values) -> bool:
    """Tell whether some layers carry a recurrent state (Gated DeltaNet) next to attention.

    Matches transformers' `layer_types` (Qwen3.5, Qwen3-Next); a config without it is told by the
    sizes of its linear layers.
    """
    text = section(config, "text_config") or config
    kinds = text.get("layer_types")
    if isinstance(kinds, list):
        return "linear_attention" in kinds
    return "linear_num_key_heads" in text
