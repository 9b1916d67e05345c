"""What a finding of each rule names: the narrowest place that the fault has."""

from __future__ import annotations

import pytest

from packcli.contract.rules import BY_CODE
from packcli.verify.kernel_level import KernelOptions
from packcli.verify.run import verify, verify_against
from tests.sample_data.test_broken import AGAINST, BROKEN, DATA, KERNELS, MODELS, NOT_IN_FILES

PLACES = [
    ("", "conservation dataset.empty manifest.fingerprint"),
    (
        "shard",
        (
            "boundary.dtype columns.forbidden columns.missing columns.null columns.type grid.dtype "
            "shard.checksum shard.extra shard.missing shard.sha256"
        ),
    ),
    (
        "shard pack",
        (
            "boundary.end boundary.max_seqlen columns.length columns.samples grid.shape "
            "pack.capacity pack.counts pack.empty padding.multiple vit.windows"
        ),
    ),
    ("shard pack token", "boundary.start"),
    (
        "shard pack sample source",
        (
            "boundary.increasing boundary.lengths isolation.windows media.missing media.sample "
            "media.sha256 sample.changed sample.digest sample.duplicate sample.extra slot.count"
        ),
    ),
    (
        "shard pack sample token source",
        (
            "label.first label.media label.none label.value loss_mask.shift loss_scale.value "
            "media.span mm_type.value mrope.sample position.reset slot.grid_order vocab.range"
        ),
    ),
    ("source", "sample.missing"),
    # the files of the first three name no sources, and padding comes from no record
    (
        "shard pack sample token",
        "isolation.attention isolation.conv isolation.state padding.place padding.value",
    ),
]
NAMED = {code: place.split() for place, codes in PLACES for code in codes.split()}


def first(code):
    kernel = KernelOptions(names=(KERNELS[code],)) if code in KERNELS else None
    verdict = verify([BROKEN[code]], kernel=kernel)
    if code in AGAINST:
        verify_against([BROKEN[code]], [DATA.parent / AGAINST[code]], verdict)
    return next(finding for finding in verdict.findings if finding.code == code)


def test_every_rule_is_in_the_table():
    assert NAMED.keys() | MODELS.keys() | NOT_IN_FILES.keys() == BY_CODE.keys()


@pytest.mark.parametrize("code", sorted(NAMED))
def test_a_message_names_its_place(code):
    finding = first(code)
    words = {
        "shard": finding.shard,
        "pack": None if finding.row is None else f"row {finding.row}",
        "sample": None
        if finding.sample is None
        else f"sample {finding.sample} ({finding.sample_id!r})",
        "token": None if finding.token is None else f"token {finding.token}",
        "source": finding.source or None,
    }
    assert [name for name, word in words.items() if word is not None] == NAMED[code]
    assert bool(finding.sample_id) == ("sample" in NAMED[code] or code == "sample.missing")
    assert all(word in finding.where() for word in words.values() if word is not None)
    assert finding.message
    assert "\n" not in finding.message
