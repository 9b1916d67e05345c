"""Identity rules: counts, names and digests of the samples in a pack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from packcli.contract.columns import Axis, columns_for
from packcli.contract.derived import DERIVED
from packcli.contract.digests import digest_bytes, sample_digests
from packcli.contract.rules.rule import DIGESTED, Hit, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packcli.contract.packs import Packs
    from packcli.contract.rows import Rows


def _counts(packs: Packs, rows: Rows) -> Iterator[Hit]:
    for column in columns_for(packs.facts):
        if not column.derived or column.axis is not Axis.PACK or column.name not in rows.cells:
            continue
        stored, expected = rows.cells[column.name].values, DERIVED[column.name](packs)
        for row in np.flatnonzero(stored != expected).tolist():
            yield Hit(row, f"{column.name} is {stored[row]}, counted {expected[row]}")


def _medium_samples(packs: Packs, rows: Rows) -> Iterator[Hit]:
    stored, expected = rows.cells["media.sample_index"].values, DERIVED["media.sample_index"](packs)
    media = packs.members.through(packs.axes[Axis.MEDIUM])
    for medium in np.flatnonzero(stored != expected).tolist():
        row = int(np.searchsorted(media.ends, medium, side="right"))
        message = f"medium says sample {stored[medium]}, its slots lie in {expected[medium]}"
        yield Hit(row, message, int(expected[medium]))


def _duplicates(packs: Packs, rows: Rows) -> Iterator[Hit]:
    del rows
    # files of one name in two folders have equal sources: the digest tells them apart
    digests = digest_bytes(packs.columns["sample_digests"])
    sources = packs.columns["sample_sources"].tolist()
    if len(set(zip(sources, digests, strict=True))) == len(sources):
        return
    seen: set[tuple[str, bytes]] = set()
    for sample, identity in enumerate(zip(sources, digests, strict=True)):
        source, _ = identity
        if source and identity in seen:
            row = int(np.searchsorted(packs.members.ends, sample, side="right"))
            yield Hit(row, f"{source} is here twice", sample - int(packs.members.values[row]))
        seen.add(identity)


def _digest(packs: Packs, rows: Rows) -> Iterator[Hit]:
    del rows
    wrong = (packs.columns["sample_digests"] != sample_digests(packs)).any(axis=1)
    for sample in np.flatnonzero(wrong).tolist():
        row = int(np.searchsorted(packs.members.ends, sample, side="right"))
        message = "name, ids, labels, grids or media are not those that encode wrote"
        yield Hit(row, message, sample - int(packs.members.values[row]))


IDENTITY = (
    Rule(
        "sample.duplicate",
        10,
        "a record is in a shard once",
        "pack every sample once; epochs belong to the training script",
        ("sample_sources",),
        check=_duplicates,
    ),
    Rule(
        "media.sample",
        12,
        "every medium names the sample that its slots lie in",
        "re-create the shard with `packcli pack`",
        ("model with media", "media.sample_index"),
        check=_medium_samples,
    ),
    Rule(
        "pack.counts",
        13,
        "length, num_samples, num_supervised, sum_sq_len and num_patches are what is counted",
        "derive them from the packed columns",
        ("labels",),
        check=_counts,
    ),
    Rule(
        "sample.digest",
        14,
        "the digest taken at encode is the digest of what is stored",
        "the sample was changed after encode: pack again from the encoded shards",
        ("labels", "sample_ids", "sample_sources", "sample_digests", DIGESTED),
        check=_digest,
    ),
)
