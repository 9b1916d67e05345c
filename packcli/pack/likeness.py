"""Likeness: whether datasets hold samples of one kind, that may share a pack."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from packcli.contract.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from packcli.shards.manifest import Manifest

_POLICY = frozenset(
    {
        "options.allow_outside_root",
        "options.allow_remote_media",
        "options.embed_media",
        "options.images.decode",
        "options.images.max_pixels",
        "options.limit",
        "options.max_length",
        "options.over_length",
    }
)
"""Options of encode that decide no token of a sample."""

_VERSIONS = "versions."

_SHOWN = 40  # characters of a value


def check_alike(paths: Sequence[Path], manifests: Sequence[Manifest]) -> None:
    """Refuse datasets whose samples were made differently.

    Raises:
        InputError: naming the fields, each in a line.
    """
    first = dict(_decisive(manifests[0]))
    for path, manifest in zip(paths[1:], manifests[1:], strict=True):
        other = dict(_decisive(manifest))
        unlike = [name for name in sorted(first | other) if _differ(first, other, name)]
        if unlike:
            told = [f"  {n}: {_spoken(first.get(n))}, {_spoken(other.get(n))}" for n in unlike]
            title = (
                f"{paths[0]} and {path} were made differently; encode both with the same model "
                "and options:"
            )
            raise InputError("\n".join([title, *told]))


def _differ(first: dict[str, object], other: dict[str, object], name: str) -> bool:
    # a packed dataset names fewer libraries than the encoded ones that it was made from
    if name.startswith(_VERSIONS) and not (name in first and name in other):
        return False
    return first.get(name) != other.get(name)


def _decisive(manifest: Manifest) -> Iterator[tuple[str, object]]:
    """Yield what must be alike, by name."""
    facts = manifest.model.to_json()
    facts.pop("padding", None)  # it is no part of a sample
    told = {
        "model": facts,
        "versions": manifest.versions,
        "settings": manifest.settings,
        "options": next(manifest.encode_options()),  # those of all inputs are alike
    }
    for name, value in _flat(told, ""):
        if name not in _POLICY:
            yield name, value


def _flat(document: dict[str, Any], before: str) -> Iterator[tuple[str, object]]:
    for key, value in document.items():
        if isinstance(value, dict):
            yield from _flat(cast("dict[str, Any]", value), f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _spoken(value: object) -> str:
    """Spell a value for people."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = "none" if value is None else text
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
