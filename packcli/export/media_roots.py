"""The folders that paths of media are relative to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from packcli.contract.errors import InputError
from packcli.export.inputs import hashes_of, told_apart
from packcli.export.refusals import UnfitError
from packcli.shards.media_files import in_file, path_of

if TYPE_CHECKING:
    from packcli.shards.manifest import Manifest

Roots: TypeAlias = Path | Mapping[str, Path] | None
"""The folder of relative paths, or one for each input, by the name in ``sample_sources``."""


class MediaRoots:
    """Places media of samples; equal relative paths of two inputs are never taken for one file.

    Args:
        roots: folders, as they were given.
        manifest: of the dataset; tells the inputs.

    Raises:
        InputError: a name that no input has, or that several have.
    """

    def __init__(self, roots: Roots, manifest: Manifest) -> None:
        self._roots = roots
        self._several = sum(map(len, hashes_of(manifest).values())) > 1
        self._relative = False
        if isinstance(roots, Mapping):
            known = told_apart(manifest)
            if strange := [name for name in roots if name not in known]:
                raise InputError(
                    f"--media-root {strange[0]}=…: no input is called so; there are "
                    f"{', '.join(known)}"
                )

    @property
    def one(self) -> Path | None:
        """The folder of all inputs, None where there is none."""
        return None if isinstance(self._roots, Mapping) else self._roots

    @property
    def left_relative(self) -> bool:
        """Whether paths were given out that are relative to a folder not told."""
        return self._relative

    def of(self, source: str) -> Path | None:
        """Return the folder of a sample's relative paths, None where it was not given.

        Args:
            source: of the sample, file and line.

        Raises:
            UnfitError: it was not given, and other inputs may have another one.
        """
        if not isinstance(self._roots, Mapping):
            return self._roots
        name = source.rpartition(":")[0]
        if name not in self._roots:
            raise UnfitError(
                "is of an input without a folder of media", "give --media-root NAME=FOLDER", name
            )
        return self._roots[name]

    def placed(self, uri: str, source: str) -> str:
        """Return the path of a medium; addresses, data and whole paths stay as they are.

        Raises:
            UnfitError: it is relative to a folder that is not known.
        """
        if not in_file(uri):
            return uri
        path = Path(path_of(uri))
        if path.is_absolute():
            return str(path)
        root = self.of(source)
        if root is not None:
            return str(root / path)
        if self._several:
            raise UnfitError(
                "names media by relative paths, which may mean other files in other inputs",
                "give --media-root FOLDER, or NAME=FOLDER for each input",
            )
        self._relative = True
        return str(path)
