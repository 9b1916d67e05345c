"""Material: which samples of which datasets are to be packed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packcli.pack.mixture import check_epochs, drawn_counts, mixed
from packcli.pack.names import check_apart, with_names
from packcli.pack.sources import index
from packcli.pack.windows import in_order

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from packcli.pack.options import PlanOptions
    from packcli.pack.sources import Index
    from packcli.pack.windows import Uses
    from packcli.shards.manifest import Manifest


@dataclass(frozen=True, slots=True, eq=False)
class Material:
    """What goes into packs.

    Attributes:
        index: all samples of all inputs.
        uses: which of them, how often, in which order.
        epochs: (inputs,) how often each input is used; None is once, in order.
        digests: (inputs,) sums of the digests of the samples used.
    """

    index: Index
    uses: Uses
    epochs: tuple[float, ...] | None
    digests: list[int]

    def told(self) -> list[dict[str, Any]]:
        """Describe the inputs for the manifest."""
        counts = self.index.counts()
        told = [
            {
                "fingerprint": source.fingerprint,
                "digest": source.digest,
                "samples": counts[number],
                "options": source.options,
                "inputs": with_names(source.inputs, self.index.names[number]),
            }
            for number, source in enumerate(self.index.manifests)
        ]
        if self.epochs is not None:
            drawn = drawn_counts(self.index, self.uses)
            for number, one in enumerate(told):
                one |= {"epochs": self.epochs[number], "drawn": drawn[number]}
        return told


def gathered(
    inputs: Sequence[Path],
    sources: list[Manifest],
    options: PlanOptions,
    *,
    epochs: Sequence[float] | None = None,
) -> Material:
    """Index the inputs, and draw from them.

    Raises:
        InputError: a shard is not the one that its manifest names, or two datasets were made from
            one file and no epochs allow repeats.
        UsageError: a number of epochs that is not above 0, or not one for each input.
    """
    asked = (options.max_images, options.max_patches)
    media = any(most is not None for most in asked) or options.balance == "vision"
    found = index(inputs, sources, media=media)
    if epochs is None:
        check_apart(inputs, sources)
        uses = in_order(found.samples, [group.count for group in found.groups])
        return Material(found, uses, None, [int(one.digest or "0", 16) for one in sources])
    check_epochs(epochs, len(inputs))
    uses, digests = mixed(found, epochs, options.seed or 0)
    return Material(found, uses, tuple(epochs), digests)
