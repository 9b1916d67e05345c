"""Where a sample is from, in words that a dataset and its origin have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packcli.verify.targets import Target


class Part(NamedTuple):
    """One dataset of those that are compared.

    Attributes:
        target: the dataset.
        names: what its input files are called here, by the names that it has for them; those that
            keep their names are left out.
    """

    target: Target
    names: dict[str, str]

    def place(self, source: str) -> str:
        """Tell the place of a record, from its ``file:line``."""
        file, colon, line = source.rpartition(":")
        return f"{self.names.get(file, file)}{colon}{line}"


def parts_of(dataset: Sequence[Target], origin: Sequence[Target]) -> tuple[list[Part], list[Part]]:
    """Call input files alike on both sides.

    How a dataset spells a file depends on what the file was encoded and packed together with. So
    a file is called as the dataset calls the one with the same bytes, else by its name without
    folders.

    Args:
        dataset: what is compared.
        origin: what it is compared with.
    """
    sides = [[(target, _files(target)) for target in side] for side in (dataset, origin)]
    held, given = (
        {digest: name for _, files in reversed(side) for name, digest in files.items() if digest}
        for side in sides
    )
    shared = {digest: name for digest, name in held.items() if digest in given}
    parts, sources = ([Part(one, _called(files, shared)) for one, files in side] for side in sides)
    return parts, sources


def _files(target: Target) -> dict[str, str]:
    """Tell the SHA-256 of the files that a dataset was made from, by name; empty where unknown."""
    files = {} if target.manifest is None else target.manifest.files()
    return {name: str(digest or "") for name, (_, digest) in files.items()}


def _called(files: dict[str, str], shared: dict[str, str]) -> dict[str, str]:
    called = {name: shared.get(digest, name.rpartition("/")[2]) for name, digest in files.items()}
    return {name: other for name, other in called.items() if name != other}
