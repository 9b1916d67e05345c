"""Encode the inputs of a dataset once more, with the options that its manifest states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packcli.contract.errors import InputError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from packcli.encode.options import EncodeOptions
    from packcli.shards.manifest import Manifest

_TOKENIZER = "tokenizer.json"
_ASKED_FOR = {"loss_scale", "padding", "vit_windows"}
"""Facts that options decide, and no model."""


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
        InputError: a dataset has no manifest or was made with another model, or an input cannot
            be used.
        UsageError: the datasets were encoded with different options.
    """
    from packcli.encode.options import EncodeJob
    from packcli.encode.run import Writing, encode

    manifests = [_manifest(path) for path in paths]
    for path, manifest in zip(paths, manifests, strict=True):
        _check_model(path, manifest, source.model)
    stated = [options for made in manifests for options in made.encode_options()]
    if any(options != stated[0] for options in stated):
        raise UsageError("the datasets were encoded with different options; verify them one by one")
    output = folder / "encoded"
    job = EncodeJob(source.model, source.media_root, _options(stated[0]))
    encode(source.inputs, job, Writing(output))
    return output


def _manifest(path: Path) -> Manifest:
    from packcli.shards.manifest import NAME, read_manifest

    if not (path / NAME).is_file():
        raise InputError(f"{path}: no manifest, so nothing says how its records were encoded")
    return read_manifest(path)


def _check_model(path: Path, manifest: Manifest, model: Path) -> None:
    """Tell another model before every sample is told to be changed.

    Raises:
        InputError: its family, its facts or its tokenizer are not those of the dataset.
    """
    from packcli.families import open_family
    from packcli.shards.manifest import file_sha256

    made, named = manifest.model.to_json(), open_family(model).facts.to_json()
    names = [name for name in (*made, *named) if name not in _ASKED_FOR]
    unlike = [
        f"{name} {made.get(name)} there, {named.get(name)} here"
        for name in dict.fromkeys(names)
        if made.get(name) != named.get(name)
    ]
    file, files = model / _TOKENIZER, manifest.settings.get("files", {})
    if files.get(_TOKENIZER) != (file_sha256(file) if file.is_file() else None):
        unlike.append(f"another {_TOKENIZER}")
    if unlike:
        told = "; ".join(unlike)
        raise InputError(
            f"{path}: made with another model than {model} ({told}); name its own with --model"
        )


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
