"""What one export is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

    from packcli.export.media_roots import Roots

Progress: TypeAlias = Callable[[int, int], None]
"""Is told how many of all row groups are done."""


def silent(_done: int, _every: int) -> None:
    """Report nothing."""


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """How to write.

    Attributes:
        output: folder to write.
        overwrite: replace an export that packcli wrote there.
        records: files of the records that the samples were made from, for targets that hold
            records and no tokens.
        media_root: folder of relative media paths, or one for each input.
        pad_to: tokens of a row in targets whose rows are all equally long; None for the
            capacity of the packs.
        pad_token: id that fills such rows; nothing is learnt from it.
        shard_bytes: size at which a file is closed, about.
        progress: is told how far it is.
    """

    output: Path
    overwrite: bool = False
    records: tuple[Path, ...] = ()
    media_root: Roots = None
    pad_to: int | None = None
    pad_token: int = 0
    shard_bytes: int = 2**29
    progress: Progress = silent
