"""A model directory's JSON files, and single values out of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from packcli.contract.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

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
    """

    directory: Path
    config: Values
    image: Values
    video: Values

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
    return ModelFiles(directory=directory, config=config, image=image, video=video)


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
