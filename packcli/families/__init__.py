"""The shelf: what each model family does with media, one file per family."""

from __future__ import annotations

from functools import cache
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Literal, cast

from packcli.contract.model import VitWindows
from packcli.contract.shelf import listed
from packcli.families.family import Choices
from packcli.families.processors.model_files import read_model_files

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from packcli.families.family import Family, FamilyFile, VideoWrapper

_INTERFACE = "family"
_FALLBACK = "text"
_FIRST_KEEPING_MAJOR = 5


def names() -> list[str]:
    """Return the families, from the folder's listing: none is imported."""
    return [name for name in listed(__path__) if name != _INTERFACE]


def load(name: str) -> ModuleType:
    """Import one family's file.

    Raises:
        ModuleNotFoundError: no such file.
    """
    return import_module(f"{__name__}.{name}")


def open_family(
    directory: Path,
    *,
    video_wrapper: Literal["auto", "legacy", "hf5"] = "auto",
    vit_windows: VitWindows = VitWindows.FRAMES,
) -> Family:
    """Open a model directory.

    Args:
        directory: holds config.json and the processors' JSON files.
        video_wrapper: how stamped videos stand in the text; `auto` follows the installed
            transformers.
        vit_windows: how the windows of LLaVA-OneVision-2's vision tower are read.

    Raises:
        InputError: no family knows its `model_type`, or its files cannot be used.
    """
    files = read_model_files(directory)
    wrapper = installed_wrapper() if video_wrapper == "auto" else video_wrapper
    return _family_file(files.model_type).open_model(files, Choices(wrapper, vit_windows))


@cache
def installed_wrapper() -> VideoWrapper:
    """Return the wrapper of the installed transformers, `hf5` where there is none."""
    try:
        major = int(metadata.version("transformers").partition(".")[0])
    except metadata.PackageNotFoundError:
        return "hf5"
    return "hf5" if major >= _FIRST_KEEPING_MAJOR else "legacy"


def _family_file(model_type: str) -> FamilyFile:
    known = names()
    # the file of that name first: the common case needs one import
    for name in sorted(known, key=lambda name: name != model_type):
        file = cast("FamilyFile", load(name))
        if model_type in file.MODEL_TYPES:
            return file
    return cast("FamilyFile", load(_FALLBACK))
