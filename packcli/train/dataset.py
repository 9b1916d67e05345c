"""Map-style dataset: any pack by its number."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING

from packcli.train.source import PackSource, Sourced

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from packcli.train.row import Pack


class PackDataset(Sourced):
    """Packs by number, for `torch.utils.data.DataLoader` and the HF Trainer.

    Encoded samples are packs of one, so an encoded dataset opens as well: several of its rows
    merge into one flat row in `collate`.

    Args:
        path: the folder that ``packcli pack`` or ``packcli encode`` wrote.
        kept_groups: row groups that stay decoded, each about 64 k tokens (1.5 MB).

    Raises:
        InputError: no complete dataset.
    """

    def __init__(self, path: str | Path, *, kept_groups: int = 2) -> None:
        self.source = PackSource(path, kept_groups)

    def __len__(self) -> int:
        """Return the number of packs."""
        return len(self.source)

    def __getitem__(self, number: int) -> Pack:
        """Read one pack; negative numbers count from the end.

        Raises:
            IndexError: there is no such pack.
        """
        row = index(number)
        if not -len(self) <= row < len(self):
            raise IndexError(f"pack {row} of {len(self)}")
        return self.source.pack(row % len(self))

    def lengths(self) -> NDArray[np.int64]:
        """(packs,) int64, tokens of each pack."""
        return self.source.scalars("length")

    def costs(self) -> NDArray[np.int64]:
        """(packs,) int64, attention cost of each pack: sum of squared sample lengths."""
        return self.source.scalars("sum_sq_len")

    def patches(self) -> NDArray[np.int64]:
        """(packs,) int64, ViT patches of each pack: vision cost."""
        return self.source.scalars("num_patches")
