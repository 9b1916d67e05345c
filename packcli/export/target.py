"""What every file on the shelf of targets offers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from packcli.contract.errors import InputError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from packcli.contract.packs import Packs
    from packcli.export.options import ExportOptions
    from packcli.export.refusals import Refused
    from packcli.shards.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Job:
    """One export.

    Attributes:
        manifest: of the dataset that is exported.
        options: how to write.
    """

    manifest: Manifest
    options: ExportOptions

    @property
    def row_tokens(self) -> int:
        """Tokens of a row where all rows are equally long.

        Raises:
            UsageError: neither the call nor the dataset tells.
        """
        told = self.options.pad_to or self.manifest.options.get("capacity")
        if not isinstance(told, int):
            raise UsageError("rows of this target are equally long: give --pad-to TOKENS")
        return told

    @property
    def pad_token(self) -> int:
        """The id that fills rows which are all equally long.

        Raises:
            UsageError: the model has no such id.
        """
        token, size = self.options.pad_token, self.manifest.model.vocab_size
        if token >= size:
            raise UsageError(f"--pad-token is {token}; the model has ids below {size}")
        return token

    def check_fits(self, tokens: int) -> None:
        """Refuse packs that are longer than a row.

        Raises:
            InputError: there is one.
        """
        if tokens > self.row_tokens:
            raise InputError(
                f"a pack has {tokens} tokens, rows have {self.row_tokens}; give --pad-to {tokens} "
                "or more"
            )


class Sink(Protocol):
    """Takes packs, row group by row group."""

    def write(self, packs: Packs) -> Refused:
        """Write packs; samples that do not fit are left out and told."""
        ...

    def finish(self) -> dict[str, Any]:
        """Close all files; return what the trainer has to be told."""
        ...


class TargetFile(Protocol):
    """One file of the shelf.

    Attributes:
        WHAT: the trainer and the form, in one line.
        CARRIED: what of a pack the trainer gets.
        LOST: what it does not get, or gets in another way.
    """

    WHAT: str
    CARRIED: tuple[str, ...]
    LOST: tuple[str, ...]

    def open_sink(self, folder: Path, job: Job) -> Sink:
        """Prepare a folder that is empty."""
        ...
