"""Stored plans: which sample lies in which pack, without a token; filled later, or read as is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.contract.errors import InputError
from packcli.pack.options import Arrangement, PlanOptions, with_padding
from packcli.pack.plan import make_plan
from packcli.pack.plan_document import FORMAT, PlanDocument
from packcli.pack.windows import Chunk, cut_packs
from packcli.shards.plan_file import SampleTable, read_plan, write_plan

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from packcli.pack.material import Material
    from packcli.pack.options import Samples
    from packcli.pack.plan import Plan


@dataclass(frozen=True, slots=True, eq=False)
class StoredPlan:
    """A plan as a file holds it.

    Attributes:
        options: what it was planned with.
        epochs: (inputs,) how often each input is used; None is once.
        inputs: name, fingerprint and digest of each; empty for a file of lengths.
        order: (n,) integers, sample numbers over all inputs, pack after pack.
        counts: (packs,) int64, samples in each pack.
        summary: packs, bound and fill.
    """

    options: PlanOptions
    epochs: tuple[float, ...] | None
    inputs: list[dict[str, Any]]
    order: NDArray[np.integer]
    counts: NDArray[np.int64]
    summary: dict[str, Any]

    def about(self) -> dict[str, Any]:
        """Return everything but the packs."""
        return {
            "format": FORMAT,
            "options": asdict(self.options),
            "epochs": self.epochs,
            "inputs": self.inputs,
            "plan": self.summary,
        }

    @property
    def digest(self) -> str:
        """SHA-256 of which sample lies in which pack."""
        state = sha256(self.order.astype("<i8", copy=False).tobytes())
        state.update(self.counts.astype("<i8", copy=False).tobytes())
        return state.hexdigest()

    def check_made_for(self, material: Material) -> None:
        """Refuse other data than those that were planned.

        Raises:
            InputError: an input is not the one that the plan names in its place.
        """
        found = _inputs(material, [one.get("name", "") for one in self.inputs])
        if not self.inputs or len(found) != len(material.index.manifests):
            raise InputError(
                f"the plan is of {len(self.inputs)} datasets, {len(material.index.manifests)} are "
                "named; name those that it was made from, in their order"
            )
        for told, there in zip(self.inputs, found, strict=True):
            if told != there:
                raise InputError(
                    f"the plan was made for other data: {told.get('name')} has another fingerprint "
                    "or other samples; plan again"
                )
        if self.order.size and int(self.order.max()) >= len(material.index.samples):
            raise InputError("the plan names samples that its inputs do not hold; plan again")


def _inputs(material: Material, names: list[str]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "fingerprint": source.fingerprint,
            "digest": source.digest,
            "shards": [{"name": shard.name, "samples": shard.samples} for shard in source.shards],
        }
        for name, source in zip(names, material.index.manifests, strict=False)
    ]


def plan_material(
    material: Material, options: PlanOptions, names: list[str]
) -> tuple[Plan, StoredPlan]:
    """Plan all samples together, whatever their number.

    Args:
        material: what to pack.
        options: how.
        names: of the inputs, for people.
    """
    numbers = material.uses.numbers
    given = material.index.samples.take(numbers)
    plan = make_plan(given.lengths, options, images=given.images, patches=given.patches)
    return plan, _stored(
        plan, numbers[plan.order], options, material.epochs, _inputs(material, names)
    )


def stored_chunks(stored: StoredPlan, material: Material, window_tokens: int) -> list[Chunk]:
    """Cut a stored plan into what is filled at once; what it leaves out goes with the first.

    Raises:
        InputError: the plan repeats a sample, leaves out one that could be packed, or has a pack
            over one of its own budgets.
    """
    samples, uses = material.index.samples, material.uses.numbers
    given = np.bincount(uses, minlength=len(samples))
    taken = np.bincount(stored.order, minlength=len(samples))
    if np.any(taken > given):
        raise InputError("the plan packs a sample more often than it is used; plan again")
    left = np.repeat(np.arange(len(samples)), given - taken)
    fits = samples.lengths[left] > 0
    spared, within = with_padding(samples.take(left), stored.options)
    for need, most in spared.demands(within):
        fits &= need <= most
    if fits.any():
        raise InputError(f"the plan leaves out {int(fits.sum())} samples that fit; plan again")
    plan = Arrangement(stored.order, stored.counts)
    _check_budgets(plan, samples, stored.options)
    totals = plan.totals(samples.lengths)
    chunks = cut_packs(stored.order, stored.counts, totals, window_tokens)
    if left.size:
        chunks.insert(0, Chunk(uses[:0], stored.counts[:0], left))
    return chunks


def _check_budgets(plan: Arrangement, samples: Samples, options: PlanOptions) -> None:
    """Refuse packs that exceed what the plan says that a pack may hold.

    Raises:
        InputError: naming the first such pack.
    """
    if not samples.lengths[plan.order].all():
        raise InputError("the plan packs a sample without tokens; plan again")
    padded, within = with_padding(samples, options)
    for what, (need, most) in padded.budgets(within).items():
        totals = plan.totals(need)
        over = np.flatnonzero(totals > most)
        if over.size:
            first = int(over[0])
            raise InputError(
                f"pack {first} of the plan holds {int(totals[first])} {what}, its options allow "
                f"{most}; plan again"
            )


def plan_lengths(samples: Samples, options: PlanOptions) -> tuple[Plan, StoredPlan]:
    """Plan the samples of a file of lengths."""
    plan = make_plan(samples.lengths, options, images=samples.images, patches=samples.patches)
    return plan, _stored(plan, plan.order, options, None, [])


def _stored(
    plan: Plan,
    order: NDArray[np.integer],
    options: PlanOptions,
    epochs: tuple[float, ...] | None,
    inputs: list[dict[str, Any]],
) -> StoredPlan:
    summary = {name: value for name, value in plan.to_json().items() if name != "seconds"}
    return StoredPlan(
        options, epochs, inputs, order, plan.members.lengths.astype(np.int64), summary
    )


def write_stored(
    path: Path, stored: StoredPlan, samples: Samples, material: Material | None
) -> None:
    """Write a plan as Parquet or, by the file's name, as JSON.

    Raises:
        IncompleteError: the file cannot be written.
    """
    groups = [] if material is None else material.index.groups
    shards: dict[Path, tuple[int, int]] = {}
    for group in groups:
        dataset, first = shards.get(group.path, (group.dataset, group.first))
        shards[group.path] = (dataset, first)
    table = SampleTable(
        stored.order,
        stored.counts,
        samples.lengths,
        [(*place, path) for path, place in shards.items()],
    )
    write_plan(path, table, stored.about())


def read_stored(path: Path) -> StoredPlan:
    """Read a plan back.

    Raises:
        InputError: it is none, or a field of it is of another type or out of range.
    """
    about, order, counts = read_plan(path)
    try:
        told = PlanDocument.checked(about)
    except ValueError as error:
        raise InputError(f"{path}: not a plan of this packcli: {error}; plan again") from None
    return StoredPlan(told.options, told.epochs, told.inputs, order, counts, told.summary)
