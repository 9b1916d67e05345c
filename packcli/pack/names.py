"""Names of inputs: files of one name that were encoded apart stay apart in packs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.contract.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from packcli.contract.packs import Packs
    from packcli.shards.manifest import Manifest

    Identity = tuple[int | None, str | None]

_UNKNOWN = (None, None)


def told_apart(paths: Sequence[Path], manifests: Sequence[Manifest]) -> list[dict[str, str]]:
    """Rename inputs that share a name without being the same file.

    A file that several datasets were made from keeps one name in all of them.

    Args:
        paths: the datasets' folders, which the new names are made of.
        manifests: theirs.

    Returns:
        For each dataset new names by old ones, of those inputs that get another.

    Raises:
        InputError: no folder tells them apart.
    """
    held = [manifest.files() for manifest in manifests]
    first: dict[str, dict[Identity, Path]] = {}
    for path, files in zip(paths, held, strict=True):
        for name, identity in files.items():
            first.setdefault(name, {}).setdefault(identity, path)
    taken = {name for name, versions in first.items() if len(versions) == 1}
    given: dict[tuple[str, Identity], str] = {}
    for name, versions in first.items():
        if len(versions) > 1:
            names = _with_folders(name, list(versions.values()), taken)
            given |= {(name, identity): new for identity, new in zip(versions, names, strict=True)}
            taken.update(names)
    return [{n: given[n, i] for n, i in files.items() if (n, i) in given} for files in held]


def check_apart(paths: Sequence[Path], manifests: Sequence[Manifest]) -> None:
    """Refuse datasets that were made from one file: packs would hold its samples twice.

    Files of the same bytes are one, whatever their names.

    Args:
        paths: the datasets' folders.
        manifests: theirs.

    Raises:
        InputError: naming two of them and the file.
    """
    first: dict[Identity, Path] = {}
    for path, manifest in zip(paths, manifests, strict=True):
        for name, identity in manifest.files().items():
            other = first.setdefault(identity, path)
            if other is not path and identity != _UNKNOWN:
                raise InputError(
                    f"{other} and {path} were both made from {name}, which would be packed twice; "
                    "name one of them, or give epochs (PATH:1) for a mixture that repeats samples"
                )


def _with_folders(name: str, folders: list[Path], taken: set[str]) -> list[str]:
    """Put as few trailing folders before a name as tell its files apart."""
    parts = [folder.resolve().parts[1:] for folder in folders]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join([*part[-depth:], name]) for part in parts]
        if len(set(names)) == len(names) and taken.isdisjoint(names):
            return names
    raise InputError(f"{name}: several inputs are called so; rename one, and encode it again")


def with_names(inputs: list[dict[str, Any]], names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Call the inputs of a manifest by their new names."""
    told: list[dict[str, Any]] = []
    for one in inputs:
        more: dict[str, Any] = {}
        if "name" in one:
            more["name"] = names.get(one["name"], one["name"])
        if "inputs" in one:
            more["inputs"] = with_names(one["inputs"], names)
        told.append(one | more)
    return told


def renamed(packs: Packs, names: Mapping[str, str]) -> Packs:
    """Say in samples where they are from by new names.

    Ids that are places follow; digests cover neither, so they stay.
    """
    if not names:
        return packs
    old = packs.columns["sample_sources"].tolist()
    ids = packs.columns["sample_ids"].tolist()
    new: list[str] = []
    for source in old:
        file, colon, line = source.rpartition(":")
        new.append(f"{names.get(file, file)}{colon}{line}")
    own = [n if i == o else i for i, o, n in zip(ids, old, new, strict=True)]
    columns = {
        name: np.array(values, dtype=packs.columns[name].dtype)
        for name, values in (("sample_sources", new), ("sample_ids", own))
    }
    return replace(packs, columns=dict(packs.columns) | columns)
