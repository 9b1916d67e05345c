"""Encode the inputs of a dataset once more, with the options that its manifest states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packcli.contract.errors import InputError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from packcli.encode.options import EncodeOptions


@dataclass(frozen=True, slots=True)
class Source:
    """What a dataset is said to be made from.

    Attributes:
        inputs: files of records.
        model: the model directory.
        media_root: folder of relative media paths; None means each input's own folder.
    """

    inputs: list[Path]
    model: Path
    media_root: Path | None = None


def encode_again(paths: list[Path], source: Source, folder: Path) -> Path:
    """Encode into a folder, as the datasets were encoded.

    Raises:
        InputError: a dataset has no manifest, or an input cannot be used.
        UsageError: the datasets were encoded with different options.
    """
    from packcli.encode.options import EncodeJob
    from packcli.encode.run import Writing, encode

    stated = [options for path in paths for options in _stated(path)]
    if any(options != stated[0] for options in stated):
        raise UsageError("the datasets were encoded with different options; verify them one by one")
    output = folder / "encoded"
    job = EncodeJob(source.model, source.media_root, _options(stated[0]))
    encode(source.inputs, job, Writing(output))
    return output


def _stated(path: Path) -> list[dict[str, Any]]:
    """Return the options of every encode that went into a dataset."""
    from packcli.shards.manifest import NAME, read_manifest

    if not (path / NAME).is_file():
        raise InputError(f"{path}: no manifest, so nothing says how its records were encoded")
    manifest = read_manifest(path)
    if manifest.kind == "encoded":
        return [manifest.options]
    return [one["options"] for one in manifest.inputs]


def _options(stated: dict[str, Any]) -> EncodeOptions:
    from packcli.encode.media.images import ImagePolicy
    from packcli.encode.options import EncodeOptions
    from packcli.families.family import PixelLimits, VideoOptions

    parts = {"images": ImagePolicy, "pixels": PixelLimits, "video": VideoOptions}
    try:
        read: dict[str, Any] = {name: kind(**stated[name]) for name, kind in parts.items()}
        return EncodeOptions(**{**stated, **read})
    except (KeyError, TypeError) as error:
        raise InputError(f"the manifest states options that this packcli lacks: {error}") from error
