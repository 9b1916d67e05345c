"""The inputs that a dataset was encoded from, as its manifest tells them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packcli.contract.errors import InputError

if TYPE_CHECKING:
    from packcli.shards.manifest import Manifest


def hashes_of(manifest: Manifest) -> dict[str, set[str]]:
    """Return hashes of the inputs by the names that ``sample_sources`` have."""
    found: dict[str, set[str]] = {}
    for one in manifest.entries():
        if "sha256" in one and "name" in one:
            found.setdefault(str(one["name"]), set()).add(str(one["sha256"]))
    return found


def told_apart(manifest: Manifest) -> dict[str, str]:
    """Return the hash of each input by its name.

    Raises:
        InputError: several inputs have one name, as they were encoded apart.
    """
    found = hashes_of(manifest)
    for name, hashes in found.items():
        if len(hashes) > 1:
            raise InputError(
                f"{len(hashes)} inputs are called {name}, so sources do not tell their samples "
                "apart; pack again, or encode them in one run: both name them by their folders too"
            )
    return {name: digest for name, hashes in found.items() for digest in hashes}


def only_last_learnt(manifest: Manifest) -> bool:
    """Whether samples were encoded with ``supervise`` ``last``."""
    options = [manifest.options, *(one.get("options", {}) for one in manifest.entries())]
    return any(told.get("supervise") == "last" for told in options)
